package agentscope

// Links follows the symbolic links of a path that a program in the folder cwd
// opens, and makes it absolute. permission.ResolveLinks does so on this
// machine.
type Links func(cwd, path string) (string, error)

// Config is what the kinds have to know of the place where their tools run.
type Config struct {
	// Home is the home directory of the user as whom the tools run; "": not
	// known, and then no path that begins with ~ counts as harmless.
	Home string
	// Links is used for deciding whether a path is inside a working directory.
	// nil looks at no file: right for tools that run on another machine, where a
	// link can lead out of the directory unseen.
	Links Links
}
