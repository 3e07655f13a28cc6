package userkeys

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"strings"
	"unsafe"

	"github.com/Microsoft/go-winio"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/windows"

	"tunctl/tunnel/sshconfig"
)

// openSSHPipe is where the OpenSSH agent of Windows listens.
const openSSHPipe = `\\.\pipe\openssh-ssh-agent`

// dialAgentSocket connects to an agent. If none is named, that is OpenSSH's or PuTTY's.
func dialAgentSocket(ctx context.Context, socket string) (net.Conn, error) {
	if socket == "" {
		if c, err := dialPipe(ctx, openSSHPipe); err == nil {
			return c, nil
		}
		pageant, err := pageantPipe()
		if err != nil {
			return nil, errNoAgent
		}
		return dialPipe(ctx, pageant)
	}
	if !strings.HasPrefix(socket, `\\.\pipe\`) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return dialPipe(ctx, socket)
}

func dialPipe(ctx context.Context, name string) (net.Conn, error) {
	c, err := winio.DialPipeContext(ctx, name)
	if err != nil {
		return nil, errNoAgent
	}
	return c, nil
}

// pageantPipe is where newer versions of PuTTY's agent listen: the name contains the
// user and a word that only the user's own programs can encrypt like this.
func pageantPipe() (string, error) {
	word, err := scrambled("Pageant")
	if err != nil {
		return "", err
	}
	return `\\.\pipe\pageant.` + pageantUser() + "." + word, nil
}

// pageantUser is the user name as PuTTY has it: of the domain, or of the machine.
func pageantUser() string {
	var buf [256]uint16
	size := uint32(len(buf))
	name, _ := sshconfig.LocalUser()
	if err := windows.GetUserNameEx(windows.NameUserPrincipal, &buf[0], &size); err == nil {
		name, _, _ = strings.Cut(windows.UTF16ToString(buf[:size]), "@")
	}
	return name
}

const (
	protectBlock        = 16 // CRYPTPROTECTMEMORY_BLOCK_SIZE
	protectCrossProcess = 1  // CRYPTPROTECTMEMORY_CROSS_PROCESS
)

// scrambled is a word encrypted with a key that Windows keeps until the next restart,
// then hashed.
func scrambled(word string) (string, error) {
	data := make([]byte, (len(word)+1+protectBlock-1)/protectBlock*protectBlock)
	copy(data, word)
	protect := windows.NewLazySystemDLL("crypt32.dll").NewProc("CryptProtectMemory")
	ok, _, err := protect.Call(uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)), protectCrossProcess) //nolint:gosec // how a call takes an array
	if ok == 0 {
		return "", err
	}
	sum := sha256.Sum256(ssh.Marshal(struct{ Data []byte }{data}))
	return hex.EncodeToString(sum[:]), nil
}
