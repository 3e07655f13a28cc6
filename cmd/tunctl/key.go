package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/desktop"
	"tunctl/internal/term"
)

func keyCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:  "key",
		Usage: "let tunctl reconnect to a host by a key of its own",
		Subcommands: []*cli.Command{
			{
				Name: "install", Usage: "make a key, and have the host accept it", ArgsUsage: "[HOST]",
				Flags: []cli.Flag{
					&cli.BoolFlag{Name: "no-passphrase", Usage: "make a key without a passphrase; many centres forbid them"},
				},
				Action: invokeInterruptible(t, takes(0, 1, "key install takes one HOST, as named in your ssh config", ofHost(installKey))),
			},
			{
				Name: "remove", Usage: "remove the key of tunctl, here and on the host", ArgsUsage: "[HOST]",
				Action: invokeInterruptible(t, takes(0, 1, "key remove takes one HOST, as named in your ssh config", ofHost(removeKey))),
			},
		},
	}
}

func installKey(ctx context.Context, inv *invocation, host string) error {
	if err := inv.connectHost(ctx, host, inv.login); err != nil {
		return err
	}
	plain, noKeyring := inv.Bool("no-passphrase"), checkKeyring(ctx)
	if noKeyring != nil && !plain {
		if yes, err := agreesToKey(ctx, inv, noKeyring); !yes {
			return err
		}
	}
	return putKey(ctx, inv, host, plain || noKeyring != nil)
}

// agreesToKey asks whether to make a key: without a keyring, one without a passphrase.
func agreesToKey(ctx context.Context, inv *invocation, noKeyring error) (bool, error) {
	if noKeyring != nil {
		inv.Say("No system keyring can be used: %v. The key would be on this computer's disk without a passphrase: who reads your files can use it. Many centres forbid that.", noKeyring)
	}
	if !inv.Interactive {
		return false, api.Errorf(api.CodeNeedsPerson, "no key was made").WithHint("`--no-passphrase` makes one without a keyring")
	}
	return inv.Agrees(ctx, "Make a key so that tunctl can reconnect automatically?", noKeyring == nil)
}

// offerKey asks once, after a login that took a password and nothing else, whether to make a key. What
// fails does not matter to the login.
func offerKey(ctx context.Context, inv *invocation, host string) error {
	typed := slices.DeleteFunc(slices.Clone(inv.asked), func(k api.PromptKind) bool { return k == api.PromptHostKey })
	if !inv.Interactive || !slices.Equal(slices.Compact(typed), []api.PromptKind{api.PromptPassword}) {
		return nil
	}
	if offer, err := inv.client.OfferKey(ctx, host); err != nil || !offer {
		return nil //nolint:nilerr // see above
	}
	noKeyring := checkKeyring(ctx)
	if yes, err := agreesToKey(ctx, inv, noKeyring); !yes {
		return err
	}
	if err := putKey(ctx, inv, host, noKeyring != nil); err != nil {
		printError(inv.Terminal, err)
	}
	return nil
}

func putKey(ctx context.Context, inv *invocation, host string, plain bool) error {
	key, err := inv.client.InstallKey(ctx, host, plain)
	if err != nil {
		return err
	}
	if key.Portal != "" {
		return registerKey(ctx, inv, host, key)
	}
	inv.Say("%s %s accepts the key %s", inv.Paint(term.Green, "✓"), host, key.File)
	if len(key.Besides) > 0 {
		inv.Say("! besides the key it asks for more at each login (%s), so tunctl cannot reconnect automatically", strings.Join(key.Besides, ", "))
		return nil
	}
	inv.Say("tunctl reconnects automatically from now on; `tunctl key remove %s` ends that", host)
	return nil
}

// registerKey takes the user to the page where a site's keys are registered.
func registerKey(ctx context.Context, inv *invocation, host string, key api.Key) error {
	fmt.Fprintln(inv.Out, key.Line)
	copied := ""
	if desktop.Copy(ctx, key.Line) == nil {
		copied = ", which is on the clipboard"
	}
	inv.Say("register this key%s, at %s; then `tunctl logout %s` and `tunctl login %s` try it", copied, key.Portal, host, host)
	if err := desktop.Open(ctx, key.Portal); err != nil {
		inv.Say("open that page yourself: %v", err)
	}
	return nil
}

func removeKey(ctx context.Context, inv *invocation, host string) error {
	if err := inv.connectHost(ctx, host, inv.login); err != nil {
		return err
	}
	key, err := inv.client.RemoveKey(ctx, host)
	if err != nil {
		return err
	}
	inv.Say("%s removed the key for %s", inv.Paint(term.Green, "✓"), host)
	if key.Portal != "" {
		inv.Say("remove it at %s, too: %s", key.Portal, key.Line)
	}
	return nil
}
