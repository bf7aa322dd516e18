package shell

// ReadOnly reports whether the line is proved to change nothing: every command
// of it only prints, whatever the files of the machine are. Reading is not
// changing, so the line may print a secret. False says nothing.
//
// Beyond static lines it knows groups in braces and, for programs such as echo
// that no argument can make change anything, plain $NAME.
func (l *Line) ReadOnly() bool {
	if l.Hidden != nil || len(l.Commands)+len(l.Nested) == 0 {
		return false
	}
	if l.Static() {
		for i := range l.Commands {
			if !l.Commands[i].readOnly() {
				return false
			}
		}
		return true
	}
	return false
}

// readOnly says whether a static command changes nothing.
func (c *Command) readOnly() bool {
	p, ok := programs[c.Argv[0].Text]
	if !ok {
		return false
	}
	if why, _ := refused(c.Argv); why != "" {
		return false
	}
	args := c.Argv[1:]
	for p.subs != nil && len(args) > 0 && !listed(p.globals, args[0].Text) {
		if p, ok = p.subs[args[0].Text]; !ok {
			return false
		}
		args = args[1:]
	}
	return p.read != nil && p.read(args)
}
