//go:build race

package dibsdrivertest

// underRace tells that the race detector makes everything several times as dear.
const underRace = true
