// Package winetest holds the tests that run the Windows program under Wine, against the
// practice cluster and a real sshd on the Linux side. It has no code of its own. Wine is
// not Windows: docs/windows.md lists what these tests cannot show.
package winetest
