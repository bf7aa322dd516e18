package cli

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/metrics"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/toolcall"
)

type servedSpace struct {
	cfg  node.Config
	set  *config
	node *node.Node // nil before the start
}

// servedSpaces are all spaces of a server, the one of --space first.
type servedSpaces []*servedSpace

// spacesFile is the file of --spaces: settings by space.
type spacesFile struct {
	Version textfile.Integer          `yaml:"version"`
	Spaces  map[string]map[string]any `yaml:"spaces"`
}

const spacesKind = "spaces file"

func readSpaces(env *environment, first node.Config) (servedSpaces, error) {
	all := servedSpaces{{cfg: first, set: &env.cfg}}
	path := env.cfg.Spaces
	if path == "" {
		return all, nil
	}
	data, err := textfile.ReadHanded(spacesKind, path, maxSettings)
	if err != nil {
		return nil, err
	}
	var file spacesFile
	if err = textfile.DecodeYAML(data, &file); err == nil && file.Version != 1 {
		err = errors.New("must begin with version: 1")
	}
	if err != nil {
		return nil, &textfile.Error{Kind: spacesKind, File: path, Err: err}
	}
	for _, name := range slices.Sorted(maps.Keys(file.Spaces)) {
		space := &servedSpace{cfg: first, set: new(config)}
		key, err := space.read(settingsFolder(path), name, file.Spaces[name])
		if name == string(first.Space) {
			key, err = "", errors.New("is the space of --space: give its settings as flags, or in askance.yaml")
		}
		if err != nil {
			f := &textfile.FaultError{Msg: err.Error(), Err: err}
			at := "$.spaces.'" + name + "'"
			if key != "" {
				at += ".'" + key + "'"
			}
			f.Line, f.Col = textfile.Place(data, at)
			return nil, &textfile.Error{Kind: spacesKind, File: path, Part: "space " + name, Err: f}
		}
		all = append(all, space)
	}
	return all, nil
}

// read adds the settings of a space. With an error, key is the setting that is wrong, if any.
func (s *servedSpace) read(folder, name string, values map[string]any) (key string, err error) {
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	var known []string
	for _, field := range s.set.ofSpace() {
		s.set.bindFlag(nil, flags, field, "")
		known = append(known, s.set.settingAt(field).key())
	}
	s.set.Space = name
	if err := bus.CheckSpace(s.set.spaceID()); err != nil {
		return "", err
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, key) {
			return key, fmt.Errorf("unknown setting %q; a space has %s", key, strings.Join(known, ", "))
		}
		of := settings[slices.IndexFunc(settings, func(s setting) bool { return s.key() == key })]
		texts, err := of.read(folder, values[key])
		if err == nil {
			err = of.set(flags, key, texts)
		}
		if err != nil {
			return key, err
		}
	}
	s.cfg.Log = s.cfg.Log.With("space", name)
	return "", s.set.addSpace(&s.cfg)
}

func (all servedSpaces) check(ctx context.Context) error {
	for _, s := range all[1:] {
		if err := node.Check(ctx, s.cfg); err != nil {
			return err
		}
	}
	return nil
}

// start starts all or none.
func (all servedSpaces) start(ctx context.Context) (err error) {
	for _, s := range all {
		s.cfg.First = nil
		if s != all[0] {
			s.cfg.First = all[0].node
		}
		if s.node, err = node.Start(ctx, s.cfg); err != nil {
			if s != all[0] {
				err = fmt.Errorf("space %s: %w", s.cfg.Space, err)
			}
			return errors.Join(err, all.close())
		}
	}
	return nil
}

// close closes the first one last, because it has the server.
func (all servedSpaces) close() (err error) {
	for _, s := range slices.Backward(all) {
		if s.node != nil {
			err = errors.Join(err, s.node.Close())
		}
	}
	return err
}

// nameOthers warns about spaces of the data folder that are not served now.
func (all servedSpaces) nameOthers(log *slog.Logger) {
	dir := all[0].cfg.Dir
	for _, name := range dir.Further() {
		if !slices.ContainsFunc(all, func(s *servedSpace) bool { return s.cfg.Space == name }) {
			log.Warn("a space of the data folder is not served: its calls wait, and its data stays; add it to --spaces to serve it again", "space", string(name), "files", string(dir.Files(name)))
		}
	}
}

// loginKey seals the cookies of browsers. The key of one of several spaces cannot open them.
func (all servedSpaces) loginKey() [32]byte {
	key := all[0].node.LoginKey()
	for _, s := range all[1:] {
		own := s.node.LoginKey()
		key = sha256.Sum256(append(key[:], own[:]...))
	}
	return key
}

// measured is what metrics read of a journal.
type measured struct {
	*journal.Journal
	*journal.Ledger
}

func measuredOf(n *node.Node) measured { return measured{n.Journal(), n.Ledger()} }

// metrics adds the engines and journals of the spaces.
func (all servedSpaces) metrics(cfg metrics.Config) metrics.Config {
	by := toolcall.Principal{Role: toolcall.RoleAuditor, Name: "askance-metrics"}
	if len(all) == 1 {
		cfg.Engine, cfg.Journal = all[0].node.Engine().As(by), measuredOf(all[0].node)
		return cfg
	}
	cfg.Spaces = map[toolcall.SpaceID]metrics.Space{}
	for _, s := range all {
		cfg.Spaces[s.cfg.Space] = metrics.Space{Engine: s.node.Engine().As(by), Journal: measuredOf(s.node)}
	}
	return cfg
}

// connected is 1 while all connections to NATS are up.
func (all servedSpaces) connected() float64 {
	for _, s := range all {
		if !s.node.Conn().IsConnected() {
			return 0
		}
	}
	return 1
}

// directoryError is 1 while the people files of a space are refused.
func (all servedSpaces) directoryError() float64 {
	for _, s := range all {
		if people := s.node.People; people != nil && people.IsRefused() {
			return 1
		}
	}
	return 0
}

func (all servedSpaces) reconnects() (sum float64) {
	for _, s := range all {
		sum += float64(s.node.Conn().Stats().Reconnects)
	}
	return sum
}
