package client

import "golang.org/x/sys/windows"

// refused is what a socket without an agent behind it answers. It is not syscall's
// ECONNREFUSED, which Go made up for Windows.
const refused = windows.WSAECONNREFUSED
