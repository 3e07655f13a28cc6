package tunnel

import (
	"crypto/sha256"
	"encoding/hex"
	"os/user"
	"strings"
	"unsafe"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/windows"
)

// pageantPipe is where the newer versions of PuTTY's agent listen: a pipe named
// for the person and for a word that only their own programs can scramble so.
func pageantPipe() (string, error) {
	name, err := pageantUser()
	if err != nil {
		return "", err
	}
	word, err := scrambled("Pageant")
	if err != nil {
		return "", err
	}
	return `\\.\pipe\pageant.` + name + "." + word, nil
}

// pageantUser is the person's name as PuTTY has it: of the domain, else the machine's.
func pageantUser() (string, error) {
	var buf [256]uint16
	size := uint32(len(buf))
	if err := windows.GetUserNameEx(windows.NameUserPrincipal, &buf[0], &size); err == nil {
		name, _, _ := strings.Cut(windows.UTF16ToString(buf[:size]), "@")
		return name, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return u.Username[strings.LastIndexByte(u.Username, '\\')+1:], nil
}

const (
	protectBlock        = 16 // CRYPTPROTECTMEMORY_BLOCK_SIZE
	protectCrossProcess = 1  // CRYPTPROTECTMEMORY_CROSS_PROCESS
)

// scrambled is a word under a key that Windows keeps until it is restarted, then
// hashed.
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
