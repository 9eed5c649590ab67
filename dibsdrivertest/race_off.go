//go:build !race

package dibsdrivertest

const underRace = false
