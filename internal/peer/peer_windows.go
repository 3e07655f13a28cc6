package peer

import (
	"fmt"
	"net"
	"runtime"

	"golang.org/x/sys/windows"
)

// CurrentUser identifies the user of this program.
func CurrentUser() (*windows.SID, error) { return tokenUser(windows.GetCurrentProcessToken()) }

func tokenUser(t windows.Token) (*windows.SID, error) {
	u, err := t.GetTokenUser()
	if err != nil {
		return nil, err
	}
	return u.User.Sid.Copy()
}

// SameUser reports whether the program that opened a named pipe, of which conn is the
// server's end, belongs to this user.
func SameUser(conn net.Conn) bool {
	client, err := pipeClient(windows.Handle(conn.(interface{ Fd() uintptr }).Fd()))
	if err != nil {
		return false
	}
	user, err := CurrentUser()
	return err == nil && client.Equals(user)
}

// pipeClient identifies the user of the program that opened a pipe: for a moment, this
// thread identifies itself as that program.
func pipeClient(h windows.Handle) (*windows.SID, error) {
	runtime.LockOSThread()
	ok, _, err := windows.NewLazySystemDLL("advapi32.dll").NewProc("ImpersonateNamedPipeClient").Call(uintptr(h))
	if ok == 0 {
		runtime.UnlockOSThread()
		return nil, err
	}
	var token windows.Token
	opened := windows.OpenThreadToken(windows.CurrentThread(), windows.TOKEN_QUERY, true, &token)
	if err := windows.RevertToSelf(); err != nil {
		return nil, err // the thread stays locked: it ends with its goroutine
	}
	runtime.UnlockOSThread()
	if opened != nil {
		return nil, opened
	}
	defer func() { _ = token.Close() }()
	return tokenUser(token)
}

// PipeOwner identifies who made a named pipe.
func PipeOwner(h windows.Handle) (*windows.SID, error) {
	descriptor, err := windows.GetSecurityInfo(h, windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return nil, err
	}
	owner, _, err := descriptor.Owner()
	return owner, err
}

// PipeServer describes the program that serves a named pipe, of which h is the client's
// end, and its user.
func PipeServer(h windows.Handle, owner *windows.SID) string {
	account := owner.String()
	if name, domain, _, err := owner.LookupAccount(""); err == nil {
		account = domain + `\` + name
	}
	var pid uint32
	if err := windows.GetNamedPipeServerProcessId(h, &pid); err != nil {
		return "a program of user " + account
	}
	return fmt.Sprintf("pid %d of user %s", pid, account)
}

// HolderHint says how to find the program that listens on a port.
func HolderHint(int) string { return "; `netstat -ano` lists which process uses it" }
