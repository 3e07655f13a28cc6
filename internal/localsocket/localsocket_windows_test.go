package localsocket

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/windows"

	"tunctl/internal/dev/must"
	"tunctl/internal/peer"
)

func TestPipeName(t *testing.T) {
	a, err := pipeName(`C:\Users\Jörg Müller\run\agent.sock`)
	must.Do(t, err)
	if b, _ := pipeName(`c:\users\JÖRG müller\.\run\agent.sock`); a != b {
		t.Errorf("%q and %q", a, b)
	}
	if c, _ := pipeName(`C:\Users\Jorg Muller\run\agent.sock`); a == c {
		t.Error("two paths have one pipe")
	}
}

func TestPipeOfAnotherUser(t *testing.T) {
	path := socketPath(t)
	pipe, err := pipeName(path)
	must.Do(t, err)
	user, err := peer.CurrentUser()
	must.Do(t, err)
	// The system's pipe, which lets everybody in.
	descriptor, err := windows.SecurityDescriptorFromString("O:SYD:P(A;;GA;;;WD)")
	must.Do(t, err)
	squatter := &Listener{pipe: pipe}
	squatter.security.SecurityDescriptor = descriptor
	h, err := squatter.instance(windows.FILE_FLAG_FIRST_PIPE_INSTANCE)
	if err != nil {
		t.Skipf("%s may not make a pipe of another user: %v", user, err)
	}
	defer func() { _ = windows.CloseHandle(h) }()
	if _, err := Dial(t.Context(), path); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), " of user ") {
		t.Errorf("a client says %v", err)
	}
	again, err := squatter.instance(0) // the client has used the first
	must.Do(t, err)
	defer func() { _ = windows.CloseHandle(again) }()
	if l, err := Listen(t.Context(), path); err == nil {
		_ = l.Close()
		t.Error("an agent joins another user's pipe")
	} else if !errors.Is(err, ErrForeign) {
		t.Errorf("an agent says %v", err)
	}
}

func TestPipeACL(t *testing.T) {
	l := listen(t, socketPath(t))
	user, err := peer.CurrentUser()
	must.Do(t, err)
	d, err := windows.GetSecurityInfo(l.next, windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	must.Do(t, err)
	got := d.String()
	if !strings.HasPrefix(got, "O:"+user.String()+"D:P(A;;") || !strings.HasSuffix(got, ";;;"+user.String()+")") || strings.Count(got, "(") != 1 {
		t.Errorf("the descriptor is %s", got)
	}
}
