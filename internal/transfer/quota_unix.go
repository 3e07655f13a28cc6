//go:build !windows

package transfer

import "syscall"

// errQuota is a quota that is used up.
const errQuota = syscall.EDQUOT
