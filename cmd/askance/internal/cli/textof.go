package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
)

// readText gives the value of a flag that is a text, @FILE, or - for standard
// input, of at most limit bytes.
func (env *environment) readText(flag, value string, limit int) (string, error) {
	if value == "-" {
		return env.readStandardInput(flag, limit)
	}
	path, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return value, nil
	}
	b, err := textfile.ReadHanded(flag, path, limit)
	return string(b), err
}

func (env *environment) readStandardInput(flag string, limit int) (string, error) {
	b, err := io.ReadAll(io.LimitReader(env.in, int64(limit)+1))
	if err != nil {
		return "", fmt.Errorf("%s: read standard input: %w", flag, err)
	}
	if len(b) > limit {
		return "", usagef("%s: standard input is longer than %d bytes", flag, limit)
	}
	return string(b), nil
}
