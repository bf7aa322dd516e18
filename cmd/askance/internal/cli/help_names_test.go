package cli_test

import (
	"os/user"
	"strings"
)

// defaultName takes the name of whoever runs the tests out of the help.
var defaultName = func() *strings.Replacer {
	u, err := user.Current()
	if err != nil {
		return strings.NewReplacer()
	}
	return strings.NewReplacer(`(default "`+u.Username+`")`, `(default "YOU")`)
}()
