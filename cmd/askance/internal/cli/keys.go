package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/toolcall"
)

func newKeysCommand(env *environment) *cobra.Command {
	c := newGroup(&cobra.Command{
		Use:   "keys",
		Short: "Manage the signing keys of engines and approvers",
		Long: `Engines sign a grant for every run of a call, and workers run only calls with a valid
grant. The keys are in engine.key in the data folder, or in the file of --keys. Engines
read the file again every second.`,
		Example: `  askance keys list
  askance keys rotate
  askance keys retire 0123456789abcdef
  askance keys approver ann.key`,
	}, newKeysApproverCommand(env))
	for _, sub := range []*cobra.Command{newKeysListCommand(env), newKeysRotateCommand(env), newKeysRetireCommand(env)} {
		env.cfg.bind(sub, &env.cfg.Data, &env.cfg.Keys)
		c.AddCommand(sub)
	}
	return c
}

func engineKeyFile(env *environment) (string, error) {
	return env.fileOr("keys", env.cfg.Keys, node.Dir.Keys)
}

func newKeysListCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the signing keys",
		Long:    "Lists every key that ever signed grants, oldest first, without its secret.",
		Example: "  askance keys list",
		Args:    noArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			file, err := engineKeyFile(env)
			if err != nil {
				return err
			}
			k, err := keyfile.Load(file)
			if err != nil {
				return err
			}
			return printKeys(env, k)
		},
	}
}

func printKeys(env *environment, k *keyfile.Keys) error {
	var rows [][]string
	for _, e := range k.Ring() {
		rows = append(rows, []string{e.ID, e.Public, keyState(e, k.SigningID())})
	}
	return env.print(map[string]any{"space_key_id": k.ID(), "signing_key_id": k.SigningID(), "keys": k.Ring()}, tableText(env.out, []string{"ID", "PUBLIC KEY", "STATE"}, rows))
}

func keyState(e toolcall.EngineKey, signing string) string {
	switch {
	case e.ID == signing:
		return "signs"
	case e.Retired.IsZero():
		return "its grants are valid"
	}
	return "retired " + e.Retired.Format(time.DateTime)
}

func newKeysRotateCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate",
		Short: "Sign with a new key",
		Long: `Creates a new signing key. Engines use it within a second; all engines of a space need
the same file. Grants of earlier keys stay valid until you retire those keys.

Workers whose --engine-key is the engines' own engine.pub read it again. Other workers
ask the engines, and trust a new key because the previous key signed it.`,
		Example: "  askance keys rotate",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return changeKeys(c.Context(), env, func(k *keyfile.Keys) (*keyfile.Keys, error) { return k.Rotated(time.Now()) })
		},
	}
}

func newKeysRetireCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "retire KEYID",
		Short: "Stop trusting a key",
		Long: `Retires a key that no longer signs, and deletes its secret. Its grants become invalid:
engines offer those calls again with the current key. Workers learn of it within ten
seconds. If a key was stolen, also give the new engine.pub to the workers, because a
stolen key can sign false successors.`,
		Example: "  askance keys retire 0123456789abcdef",
		Args:    wantArgs(1, "one key id; askance keys list shows the ids"),
		ValidArgsFunction: completeFirst(func(c *cobra.Command) (ids []string) {
			if env.prepare(c) != nil {
				return nil
			}
			file, _ := engineKeyFile(env)
			k, err := keyfile.Load(file)
			if err != nil {
				return nil
			}
			for _, e := range k.Ring() {
				if e.ID != k.SigningID() && e.Retired.IsZero() {
					ids = append(ids, e.ID)
				}
			}
			return ids
		}),
		RunE: func(c *cobra.Command, args []string) error {
			return changeKeys(c.Context(), env, func(k *keyfile.Keys) (*keyfile.Keys, error) {
				now, space := time.Now(), env.cfg.spaceID()
				if a, err := journal.OpenAnchor(env.files().Anchor(space), space, k); err == nil { // a checkpoint signed later than now would be void
					now = slices.MaxFunc([]time.Time{now, a.SignedAt()}, time.Time.Compare)
					_ = a.Close()
				}
				return k.Retired(args[0], now)
			})
		},
	}
}

func changeKeys(ctx context.Context, env *environment, change func(*keyfile.Keys) (*keyfile.Keys, error)) error {
	file, err := engineKeyFile(env)
	if err != nil {
		return err
	}
	k, err := keyfile.Change(ctx, file, change)
	if err != nil {
		return err
	}
	return printKeys(env, k)
}

func newKeysApproverCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "approver FILE",
		Short: "Create a signing key for an approver",
		Long: `Creates a key with which you sign approvals (--sign-key FILE of askance approve and
inbox), so that not even an engine can forge your approval. Only you can read the file;
keep it safe. The command prints the public key: add it under your name to the
directory file, and to the list of the workers (askance worker --approver-keys).`,
		Example: `  askance keys approver ann.key
  askance approve call_42 --sign-key ann.key
  askance inbox --sign-key ann.key`,
		Args: wantArgs(1, "one file name, for instance: askance keys approver ann.key"),
		RunE: func(_ *cobra.Command, args []string) error {
			pub, err := keyfile.CreateApproverKey(args[0])
			if err != nil {
				return err
			}
			return env.print(map[string]string{"file": args[0], "key_id": toolcall.KeyID(pub), "public_key": toolcall.FormatPublicKey(pub)}, toolcall.FormatPublicKey(pub)+"\n")
		},
	}
}
