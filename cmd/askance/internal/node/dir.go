package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Dir is a data folder.
type Dir string

// Keys is the file with the secrets of the space's engines.
func (d Dir) Keys() string { return filepath.Join(string(d), "engine.key") }

// PublicKeys is the file with which workers check grants.
func (d Dir) PublicKeys() string { return filepath.Join(string(d), "engine.pub") }

// Store is the folder of the embedded server's journal.
func (d Dir) Store() string { return filepath.Join(string(d), "nats") }

// Anchor is the default file that records the last known sequence of a space's journal.
func (d Dir) Anchor(space toolcall.SpaceID) string {
	return filepath.Join(d.anchors(), string(space))
}

func (d Dir) anchors() string { return filepath.Join(string(d), "anchors") }

func (d Dir) hasAnchors() bool {
	found, _ := os.ReadDir(d.anchors()) // none: there are no anchors
	return slices.ContainsFunc(found, func(f fs.DirEntry) bool { return bus.CheckSpace(toolcall.SpaceID(f.Name())) == nil })
}

// Snapshot is the file with the engine's snapshot of a space's journal.
func (d Dir) Snapshot(space toolcall.SpaceID) string {
	return filepath.Join(string(d), "snapshots", string(space))
}

// Policies is the folder with the policies that were in force in a space.
func (d Dir) Policies(space toolcall.SpaceID) string {
	return filepath.Join(string(d), "policies", string(space))
}

// Verified is the file that records how far a space's journal was verified.
func (d Dir) Verified(space toolcall.SpaceID) string {
	return filepath.Join(string(d), "verified", string(space))
}

// Archives is the folder with the files of archived records.
func (d Dir) Archives() string { return filepath.Join(string(d), "archive") }

// Creds is the default credentials folder.
func (d Dir) Creds() string { return filepath.Join(string(d), "creds") }

// Tokens is the default token file of the gateway.
func (d Dir) Tokens() string { return filepath.Join(string(d), "tokens.json") }

// Endpoint is the file with the embedded server's URL.
func (d Dir) Endpoint() string { return filepath.Join(string(d), "endpoint") }

// Console is the file with the address of the web console.
func (d Dir) Console() string { return filepath.Join(string(d), "console") }

// Addresses are the files of a running server that a killed one leaves behind.
func (d Dir) Addresses() []string { return []string{d.Endpoint(), d.Console()} }

// Certificate is the file with the embedded server's certificate, if it has TLS.
func (d Dir) Certificate() string { return filepath.Join(string(d), "nats.crt") }

// Files is the folder with the files of one space: keys, anchor, archive, snapshots. It
// is d, or a folder of its own if the space was served in addition to the first one.
func (d Dir) Files(space toolcall.SpaceID) Dir {
	own := d.further(space)
	if info, err := os.Stat(string(own)); space != "" && err == nil && info.IsDir() {
		return own
	}
	return d
}

func (d Dir) spaces() string { return filepath.Join(string(d), "spaces") }

func (d Dir) further(space toolcall.SpaceID) Dir {
	return Dir(filepath.Join(d.spaces(), string(space)))
}

// Further lists the spaces that were served in addition to the first one.
func (d Dir) Further() []toolcall.SpaceID {
	found, _ := os.ReadDir(d.spaces()) // none: there are no such spaces
	var out []toolcall.SpaceID
	for _, f := range found {
		if f.IsDir() {
			out = append(out, toolcall.SpaceID(f.Name()))
		}
	}
	return out
}

const maxEndpoint = 1024

// URL returns where the folder's server can be reached, or "" if none runs. A server that was
// killed leaves its file behind until the next one starts; another folder's can have its address.
func (d Dir) URL() (string, error) {
	if !embed.InUse(d.Store()) {
		return "", nil
	}
	return d.readAddress(d.Endpoint())
}

// ConsoleURL returns where the web console of the folder's server is, "unix:" and a path
// if it has only a Unix socket, or "" if none runs. A killed server leaves its address behind.
func (d Dir) ConsoleURL() (string, error) {
	if !embed.InUse(string(d)) {
		return "", nil
	}
	text, err := d.readAddress(d.Console())
	return listensAnywhere.ReplaceAllString(text, "${1}127.0.0.1$2"), err
}

// listensAnywhere matches the address of a server that listens at all addresses of this machine.
var listensAnywhere = regexp.MustCompile(`^(https?://)(?:0\.0\.0\.0|\[::\])(:\d+)`)

func (d Dir) readAddress(path string) (string, error) {
	b, _, err := plainfile.Read(path, maxEndpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err == nil && len(b) > maxEndpoint {
		err = errors.New("the file is too long")
	}
	if err != nil {
		return "", fmt.Errorf("read the %s of %s: %w", filepath.Base(path), d, err)
	}
	return strings.TrimSpace(string(b)), nil
}

// WriteConsole records where the web console is. remove deletes the record.
func (d Dir) WriteConsole(url string) (remove func() error, err error) {
	if err := plainfile.Replace(d.Console(), []byte(url+"\n")); err != nil {
		return nil, fmt.Errorf("write the address of the web console: %w", err)
	}
	return func() error { return os.Remove(d.Console()) }, nil
}

// Exists returns an error if there is no journal.
func (d Dir) Exists() error {
	if d == "" {
		return &message.Error{Code: message.CodeInvalid, Op: "open data folder", What: "there is no data folder", Hint: "name one with --data, or a server with --nats"}
	}
	_, err := os.Stat(d.Store())
	switch {
	case errors.Is(err, fs.ErrNotExist) && d.hasAnchors():
		return &message.Error{Code: message.CodeNotFound, Op: "open data folder", What: string(d) + " has no askance journal, but the anchor file of one", Hint: "if it is on another server, name that with --nats; if the folder " + d.Store() + " was deleted, restore a backup or see askance journal check"}
	case errors.Is(err, fs.ErrNotExist):
		return &message.Error{Code: message.CodeNotFound, Op: "open data folder", What: string(d) + " has no askance journal", Hint: "write the files of a project with askance init and start askance serve, or name another folder with --data"}
	case err != nil:
		return fmt.Errorf("open data folder: %w", err)
	}
	return nil
}

// writeEndpoint records where the server is, and its certificate.
func (d Dir) writeEndpoint(url string, certificate []byte) error {
	if certificate != nil {
		if err := plainfile.Replace(d.Certificate(), certificate); err != nil {
			return fmt.Errorf("write the server's certificate: %w", err)
		}
	}
	if err := plainfile.Replace(d.Endpoint(), []byte(url+"\n")); err != nil {
		return fmt.Errorf("write the endpoint file: %w", err)
	}
	return nil
}

type keyring struct {
	cfg     *Config
	files   Dir           // with the keys and the anchor
	keys    *keyfile.Keys // as they were at the start: event records need no others
	signing *keyfile.Live // as they are now
}

func (n *keyring) openKeys(context.Context) (err error) {
	path := cmp.Or(n.cfg.Keys, n.files.Keys())
	if n.cfg.Offline {
		if err := n.cfg.Dir.Exists(); err != nil {
			return err
		}
		n.keys, err = keyfile.Load(path)
	} else {
		if err := plainfile.MkdirAll(string(n.files)); err != nil {
			return fmt.Errorf("make the data folder: %w", err)
		}
		if n.cfg.Anchor == "" && n.files.hasAnchors() { // of another space: this one is new, if it has none
			if err := journal.CreateAnchor(n.anchorPath()); err != nil {
				return err
			}
		}
		n.keys, err = journal.LoadOrCreateSpaceKeys(path, n.anchorPath())
	}
	if err != nil {
		return err
	}
	n.signing = keyfile.NewLive(path, n.keys)
	return nil
}

func (n *keyring) anchorPath() string {
	return cmp.Or(n.cfg.Anchor, n.files.Anchor(n.cfg.Space))
}

// writePublic writes the public key for workers, now that the folder is locked and the key matches
// the stream: an engine that cannot run must not replace the file of one that does.
func (n *keyring) writePublic(context.Context) error {
	if n.cfg.Offline {
		return nil
	}
	return n.signing.Publish(n.files.PublicKeys())
}

// watchKeys follows rotations of the signing key until ctx ends. Workers get the
// new public key before anything is signed with it.
func (n *keyring) watchKeys(ctx context.Context, renew func()) {
	file := plainfile.Reloader{Report: func(err error) {
		if err != nil {
			n.cfg.Log.Error("the key file cannot be used; the keys in force stay", "error", err)
			return
		}
		n.cfg.Log.Warn("the key file is valid again")
	}}
	file.Watch(ctx, reloadEvery, func(context.Context) error {
		changed, err := n.signing.Reload(func(k *keyfile.Keys) error { return k.WritePublic(n.files.PublicKeys()) })
		if changed {
			n.cfg.Log.Info("the signing keys have changed", "signing", n.KeyID())
			renew()
		}
		return err
	})
}

// KeyID names the key that grants are signed with.
func (n *keyring) KeyID() string { return n.signing.Now().SigningID() }

// LinkKey is the key that authenticates links in webhooks: the same for all engines of the space.
func (n *keyring) LinkKey() [32]byte { return n.keys.Derive("webhook links") }

// LoginKey is the key that seals the cookies of browsers: the same for all engines of the space.
func (n *keyring) LoginKey() [32]byte { return n.keys.Derive("browser logins") }
