package cli

import (
	"crypto/ed25519"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message"
)

// signing is how an approver signs.
type signing struct {
	key   string
	lasts time.Duration
}

func (s *signing) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.key, "sign-key", "", "sign with this key of yours (askance keys approver makes one)")
	f.DurationVar(&s.lasts, "sign-for", 24*time.Hour, "how long the signature is good: no worker starts the call after that")
}

// signer signs approvals with the key that was named.
type signer struct {
	key   ed25519.PrivateKey
	as    string
	lasts time.Duration
}

// load reads the key, once; nil if none was named.
func (s *signing) load(as string) (*signer, error) {
	if s.key == "" {
		return nil, nil //nolint:nilnil // nobody asked for a signature
	}
	if s.lasts <= 0 {
		return nil, usagef("--sign-for must be positive")
	}
	key, err := bus.LoadApproverKey(s.key)
	if err != nil {
		return nil, err
	}
	return &signer{key, as, s.lasts}, nil
}

// keyID names the key, as lists of approvers have it.
func (s *signer) keyID() string { return message.KeyID(s.key.Public().(ed25519.PublicKey)) }

// sign signs the approval of the question that was shown. The digest is computed
// here, from what was shown, and not taken from anybody.
func (s *signer) sign(call *message.Call, now time.Time) (*message.ApproverSignature, error) {
	digest, err := call.Question.Digest()
	if err != nil {
		return nil, err
	}
	if digest != call.Digest || call.Question.Key != call.Key || call.Question.Tool != call.Tool {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "sign", What: "the question that was shown is not the one that its digest names", Hint: "do not approve it, and tell whoever runs the engine"}
	}
	return message.SignApproval(*call.Question, s.as, now.Add(s.lasts), s.key)
}

func newKeysApproverCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "approver FILE",
		Short: "Make a signing key for an approver",
		Long: `Makes a key with which you sign approvals (--sign-key FILE of askance approve and inbox), so that
not even an engine can make up your consent. The file is readable for you alone and
stays with you. Its public key, which is printed, goes under your name into the
directory file, and into the list that workers have (askance worker --approver-keys).`,
		Example: `  askance keys approver ann.key
  askance approve call_42 --sign-key ann.key
  askance inbox --sign-key ann.key`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("want the file to make, for instance: askance keys approver ann.key")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			pub, err := bus.CreateApproverKey(args[0])
			if err != nil {
				return err
			}
			if env.json {
				return writeJSON(env.out, map[string]string{"file": args[0], "key_id": message.KeyID(pub), "public_key": message.FormatPublicKey(pub)})
			}
			return env.printf("%s\n", message.FormatPublicKey(pub))
		},
	}
}
