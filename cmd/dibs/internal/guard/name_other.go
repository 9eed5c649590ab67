//go:build unix && !linux

package guard

func setName() {}
