//go:build !linux

package netwatch

import "log/slog"

// networkEvents has no source on this system: the addresses are polled.
func networkEvents(*slog.Logger) (<-chan struct{}, func()) { return nil, func() {} }

func defaultRoutes() []string { return nil }
