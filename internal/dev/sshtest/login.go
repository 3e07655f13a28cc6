package sshtest

import (
	"bytes"
	"errors"
	"slices"

	"golang.org/x/crypto/ssh"
)

// Login is a way to log in that a server offers.
type Login = func(*ssh.ServerConfig)

// Dialog is what a server asks a user with keyboard-interactive.
type Dialog = func(ask ssh.KeyboardInteractiveChallenge) error

// All are several in one.
func All(logins ...Login) Login {
	return func(c *ssh.ServerConfig) {
		for _, set := range logins {
			set(c)
		}
	}
}

// AcceptAnybody lets everybody in.
func AcceptAnybody(c *ssh.ServerConfig) { c.NoClientAuth = true }

// AcceptKey lets some keys in.
func AcceptKey(keys ...ssh.PublicKey) Login {
	return func(c *ssh.ServerConfig) {
		c.PublicKeyCallback = func(_ ssh.ConnMetadata, offered ssh.PublicKey) (*ssh.Permissions, error) {
			if slices.ContainsFunc(keys, func(key ssh.PublicKey) bool { return bytes.Equal(offered.Marshal(), key.Marshal()) }) {
				return nil, nil
			}
			return nil, errors.New("unknown key")
		}
	}
}

// AcceptCertificates lets in whoever has a certificate of ca.
func AcceptCertificates(ca ssh.PublicKey) Login {
	checker := ssh.CertChecker{IsUserAuthority: func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), ca.Marshal()) }}
	return func(c *ssh.ServerConfig) { c.PublicKeyCallback = checker.Authenticate }
}

// AcceptKeyThen asks the owner of a key something.
func AcceptKeyThen(key ssh.PublicKey, dialog Dialog) Login {
	return func(c *ssh.ServerConfig) {
		var next ssh.ServerConfig
		Ask(dialog)(&next)
		AcceptKey(key)(c)
		accept := c.PublicKeyCallback
		c.PublicKeyCallback = func(m ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
			if p, err := accept(m, k); err != nil {
				return p, err
			}
			return nil, &ssh.PartialSuccessError{Next: ssh.ServerAuthCallbacks{KeyboardInteractiveCallback: next.KeyboardInteractiveCallback}}
		}
	}
}

// AcceptPassword lets one password in.
func AcceptPassword(password string) Login {
	return func(c *ssh.ServerConfig) {
		c.PasswordCallback = func(_ ssh.ConnMetadata, given []byte) (*ssh.Permissions, error) {
			if string(given) == password {
				return nil, nil
			}
			return nil, errors.New("wrong password")
		}
	}
}

// Ask lets in for whom the dialog ends without an error.
func Ask(dialog Dialog) Login {
	return func(c *ssh.ServerConfig) {
		c.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			return nil, dialog(ask)
		}
	}
}

// AskForEnter asks a question that only an empty answer is right for.
func AskForEnter(question string) Login {
	return Ask(func(ask ssh.KeyboardInteractiveChallenge) error {
		answers, err := ask("", "", []string{question}, []bool{false})
		if err == nil && (len(answers) != 1 || answers[0] != "") {
			err = errors.New("something was typed")
		}
		return err
	})
}

// Banner is what is said before a login.
func Banner(text string) Login {
	return func(c *ssh.ServerConfig) { c.BannerCallback = func(ssh.ConnMetadata) string { return text } }
}

// EachKey calls f with each key that is offered, before it is accepted or not. It comes after
// what accepts keys.
func EachKey(f func(ssh.PublicKey)) Login {
	return func(c *ssh.ServerConfig) {
		accept := c.PublicKeyCallback
		c.PublicKeyCallback = func(m ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
			f(k)
			return accept(m, k)
		}
	}
}

// LetNobodyIn is what a node does after the job's end.
func (s *Server) LetNobodyIn() {
	s.Config.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
		return nil, errors.New("you have no active jobs on this node")
	}
}
