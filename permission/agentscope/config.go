package agentscope

// Reading says how AgentScope's rules and checks are understood.
type Reading uint8

const (
	// Guarded is our own reading: where upstream allows what nobody meant to
	// allow, it asks; where a deny or ask rule is dodged, it matches. It allows
	// nothing that upstream does not.
	Guarded Reading = iota
	// Strict answers as upstream does in every case, hazards included.
	Strict
)

// String is the name that configuration files use.
func (r Reading) String() string {
	if r == Strict {
		return "strict"
	}
	return "guarded"
}

// Links follows the symbolic links of a path that a program in the folder cwd
// opens, and makes it absolute. permission.ResolveLinks does so on this
// machine.
type Links func(cwd, path string) (string, error)

// Config is what the kinds have to know of the place where their tools run.
type Config struct {
	Reading Reading
	// Home is the home directory of the user as whom the tools run; "": not
	// known, and then Guarded takes no path that begins with ~ for harmless.
	Home string
	// Links is used for deciding whether a path is inside a working directory.
	// nil looks at no file: right for tools that run on another machine, where a
	// link can lead out of the directory unseen.
	Links Links
}

// AsUpstream implements permission.UpstreamKind.
func (c Config) AsUpstream() bool { return c.Reading == Strict }
