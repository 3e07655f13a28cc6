package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"
	"github.com/zalando/go-keyring"

	"tunctl/internal/agent"
)

// keyringService is what our passwords are filed under.
const keyringService = "tunctl"

// keyringCommand works on the system's keyring for the agent, which may have to end
// it: a locked keyring waits for a person without limit.
func keyringCommand(t *terminal) *cli.Command {
	verb := func(name string, f func(account string) error) *cli.Command {
		return &cli.Command{Name: name, ArgsUsage: "ACCOUNT", Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("keyring %s takes one account", name)
			}
			return f(c.Args().First())
		}}
	}
	return &cli.Command{
		Name: agent.KeyringCommand, Hidden: true, Usage: "work on the system's keyring; passwords go by stdin and stdout",
		Subcommands: []*cli.Command{
			verb("get", func(account string) error {
				text, err := keyring.Get(keyringService, account)
				if err != nil {
					return noKeyring(err)
				}
				_, err = io.WriteString(t.out, text)
				return err
			}),
			verb("set", func(account string) error {
				text, err := io.ReadAll(t.in)
				if err != nil {
					return err
				}
				return noKeyring(keyring.Set(keyringService, account, string(text)))
			}),
			verb("delete", func(account string) error { return noKeyring(keyring.Delete(keyringService, account)) }),
		},
	}
}

// noKeyring says which part of the machine failed.
func noKeyring(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the system's keyring cannot be used: %w", err)
}
