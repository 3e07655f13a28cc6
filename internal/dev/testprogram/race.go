//go:build race

package testprogram

const raceEnabled = true
