package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/cmd/snapctl/internal/identity"
	"github.com/boocode/filestore/internal/exchange"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/words"
)

// circleOf is for whom keys are: see lines.Circle.
func circleOf(rs identity.Recipients) *lines.Circle {
	return &lines.Circle{Readers: rs.Texts(), Wrap: rs.Wrap}
}

func (a *app) remoteKeyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "key",
		Short: "Say who can read a remote",
		Args:  a.noCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.remoteKeyListCommand(), a.remoteKeyAddCommand(), a.remoteKeyDropCommand())
	return c
}

// A jsonReader is one who can read a remote, in JSON.
type jsonReader struct {
	Recipient string `json:"recipient"`
	You       bool   `json:"you"` // the identity that is used here is theirs
}

func (a *app) remoteKeyListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list [NAME]",
		Short: "List those who can read what comes into a remote",
		Args:  args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withKeys(cmd.Context(), args, func(k *remoteKeys) error {
				readers, _, err := k.repo.Readers(cmd.Context())
				if err != nil {
					return remoteError(k.config.Name, err)
				}
				rs, err := k.noted(readers)
				if err != nil {
					return err
				}
				for _, r := range rs {
					isYou, err := k.id.Opens(r)
					switch {
					case err != nil:
						return err
					case a.flags.json:
						err = a.printJSON(&jsonReader{r.Text, isYou})
					case isYou:
						_, err = fmt.Fprintf(a.out, "%s (you)\n", words.Plain(r.Text))
					default:
						_, err = fmt.Fprintln(a.out, words.Plain(r.Text))
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// changeKeys is a command that changes who can read a remote, by those whom --recipient names.
func (a *app) changeKeys(use, short, recipient string,
	change func(ctx context.Context, k *remoteKeys, given identity.Recipients) error) *cobra.Command {
	var texts []string
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			given, err := recipientsTyped(cmd, texts)
			if err != nil {
				return err
			}
			return a.withKeys(cmd.Context(), args, func(k *remoteKeys) error { return change(cmd.Context(), k, given) })
		},
	}
	c.Flags().StringArrayVar(&texts, "recipient", nil, recipient)
	return c
}

func (a *app) remoteKeyAddCommand() *cobra.Command {
	return a.changeKeys("add [NAME]", "Have others read a remote, what is there and what comes", "let `KEY` read it, age1… or a public key of SSH", func(ctx context.Context, k *remoteKeys, given identity.Recipients) error {
		var all identity.Recipients
		err := k.repo.Admit(ctx, func(readers []string) (_ *lines.Circle, err error) {
			if all, err = k.noted(readers); err != nil {
				return nil, err
			}
			for _, g := range given {
				if slices.ContainsFunc(all, g.IsSame) {
					return nil, refuse("'snapctl remote key list' lists all", "%s can read %s already",
						words.Quote(g.Text), k.config.Name)
				}
				all = append(all, g)
			}
			return circleOf(all), nil
		})
		if err != nil {
			return remoteError(k.config.Name, err)
		}
		if a.flags.json {
			return a.printJSON(&remoteKeyAnswer{Recipients: len(all)})
		}
		a.note("%s is encrypted for %s now, who can read it from its first turn on", k.config.Name,
			words.Count(len(all), "recipient"))
		return nil
	})
}

func (a *app) remoteKeyDropCommand() *cobra.Command {
	return a.changeKeys("drop [NAME]", "Have others not read what comes into a remote", "take `KEY` out, age1… or a public key of SSH", func(ctx context.Context, k *remoteKeys, given identity.Recipients) error {
		return k.rotate(ctx, func(readers []string) (identity.Recipients, error) {
			all, err := k.noted(readers)
			if err != nil {
				return nil, err
			}
			for _, g := range given {
				n := len(all)
				if all = slices.DeleteFunc(all, g.IsSame); len(all) == n {
					return nil, refuse("'snapctl remote key list' lists all", "%s is not one who can read %s",
						words.Quote(g.Text), k.config.Name)
				}
			}
			return all, nil
		})
	})
}

// recipientsTyped reads the public keys that a command must have.
func recipientsTyped(cmd *cobra.Command, texts []string) (identity.Recipients, error) {
	if len(texts) == 0 {
		return nil, usageError(cmd, "%s: want --recipient KEY", strings.TrimPrefix(cmd.CommandPath(), "snapctl "))
	}
	rs, err := identity.ParseRecipients(texts)
	if err != nil {
		err = &failure{code: exitUsage, err: err}
	}
	return rs, err
}

func (a *app) remoteRotateCommand() *cobra.Command {
	var texts []string
	c := &cobra.Command{
		Use:   "rotate [NAME]",
		Short: "Encrypt what comes into a remote with a new key",
		Args:  args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			given, err := identity.ParseRecipients(texts)
			if err != nil {
				return &failure{code: exitUsage, err: err}
			}
			return a.withKeys(cmd.Context(), args, func(k *remoteKeys) error {
				return k.rotate(cmd.Context(), func(readers []string) (identity.Recipients, error) {
					if len(given) > 0 {
						return given, nil
					}
					return k.noted(readers)
				})
			})
		},
	}
	c.Flags().StringArrayVar(&texts, "recipient", nil,
		"encrypt for `KEY`, age1… or a public key of SSH, and for nobody else (default: those who can read it now)")
	return c
}

// A remoteKeys is an encrypted remote, and the identity that has opened it.
type remoteKeys struct {
	place  *place
	config *exchange.Config
	repo   *lines.Repo
	id     *identity.Identity
}

// withKeys calls fn with a remote that has keys.
func (a *app) withKeys(ctx context.Context, args []string, fn func(*remoteKeys) error) error {
	return a.withRepo(ctx, args, func(p *place, c *exchange.Config, repo *lines.Repo) error {
		if repo.IsPlain() {
			return refuse("", "remote %s is not encrypted: who can read the place can read it", words.Quote(c.Name))
		}
		id, err := a.identityOf("", c.Identity)
		if err != nil {
			return err
		}
		return fn(&remoteKeys{p, c, repo, id})
	})
}

// noted parses what is noted of those who can read the remote.
func (k *remoteKeys) noted(readers []string) (identity.Recipients, error) {
	if len(readers) == 0 { // an earlier program made it
		return nil, refuse("'snapctl remote rotate' with --recipient for all who are to read on notes them",
			"remote %s: it is not noted there who can read it", words.Quote(k.config.Name))
	}
	rs, err := identity.ParseRecipients(readers)
	if err != nil {
		err = &failure{exitEnvironment, fmt.Errorf("remote %s: %w", words.Quote(k.config.Name), err),
			"a newer snapctl may know it; nothing was changed"}
	}
	return rs, err
}

// rotate makes a new key, for those whom to returns, when it is given who can read now. Who makes it is to read it.
func (k *remoteKeys) rotate(ctx context.Context, to func([]string) (identity.Recipients, error)) error {
	var all identity.Recipients
	by := [16]byte(k.place.store.RawID())
	epoch, err := k.repo.Rotate(ctx, by, func(readers []string) (_ *lines.Circle, err error) {
		if all, err = to(readers); err != nil {
			return nil, err
		}
		isOne := false
		if len(all) > 0 {
			isOne, err = k.id.Opens(all...)
		}
		if err == nil && !isOne {
			err = refuse("your own public key has to be one of them", "you could not read what comes")
		}
		return circleOf(all), err
	})
	if err != nil {
		return remoteError(k.config.Name, err)
	}
	if a := k.place.app; a.flags.json {
		return a.printJSON(&remoteKeyAnswer{epoch, len(all)})
	}
	k.place.app.note("what comes into %s is encrypted with key %d, for %s; who could read what is there still can",
		k.config.Name, epoch, words.Count(len(all), "recipient"))
	return nil
}

// A remoteKeyAnswer is what a command prints as JSON that has changed who can read a remote.
type remoteKeyAnswer struct {
	Epoch      int `json:"epoch,omitempty"` // of the new key
	Recipients int `json:"recipients"`
}
