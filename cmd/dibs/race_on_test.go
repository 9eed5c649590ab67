//go:build race && linux

package main_test

const raceEnabled = true
