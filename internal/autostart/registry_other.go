//go:build !windows

package autostart

// openRegistry is nil: only Windows has one.
func openRegistry() registry { return nil }
