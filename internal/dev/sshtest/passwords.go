package sshtest

import (
	"context"
	"errors"

	"tunctl/internal/api"
)

// NoPasswords is a userkeys.Passwords that saves nothing.
type NoPasswords struct{}

// Password implements userkeys.Passwords.
func (NoPasswords) Password(context.Context, string) (string, bool) { return "", false }

// Keep implements userkeys.Passwords.
func (NoPasswords) Keep(context.Context, string, string, api.Keep) error {
	return errors.New("no password storage is available")
}

// SetRefused implements userkeys.Passwords.
func (NoPasswords) SetRefused(string) {}

// Refused implements userkeys.Passwords.
func (NoPasswords) Refused(string) api.Keep { return api.KeepNot }
