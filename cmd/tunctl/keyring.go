package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"
	"github.com/zalando/go-keyring"

	"tunctl/internal/agent/passwords"
	"tunctl/internal/term"
)

// keyringService is the service under which our passwords are stored.
const keyringService = "tunctl"

// keyringCommand accesses the system keyring for the agent, which may have to kill it: a
// locked keyring waits for the user without limit.
func keyringCommand(t *term.Terminal) *cli.Command {
	verb := func(name string, f func(account string) error) *cli.Command {
		return &cli.Command{Name: name, ArgsUsage: "ACCOUNT", Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("keyring %s takes one account", name)
			}
			err := checkKeyring(c.Context)
			if err == nil {
				err = f(c.Args().First())
			}
			if err != nil {
				return fmt.Errorf("the system keyring is not available: %w; --remember keeps the password in memory until the agent stops", err)
			}
			return nil
		}}
	}
	return &cli.Command{
		Name: passwords.KeyringCommand, Hidden: true, Usage: "read, store or delete a password in the system keyring, through stdin and stdout",
		Subcommands: []*cli.Command{
			verb("get", func(account string) error {
				text, err := keyring.Get(keyringService, account)
				if err != nil {
					return err
				}
				_, err = io.WriteString(t.Out, text)
				return err
			}),
			verb("set", func(account string) error {
				text, err := io.ReadAll(t.In)
				if err != nil {
					return err
				}
				return keyring.Set(keyringService, account, string(text))
			}),
			verb("delete", func(account string) error { return keyring.Delete(keyringService, account) }),
		},
	}
}
