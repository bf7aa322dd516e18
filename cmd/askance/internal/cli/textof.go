package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// textOf gives the value of a flag that is a text, @FILE, or - for standard
// input, of at most limit bytes.
func (a *app) textOf(flag, value string, limit int) (string, error) {
	if value == "-" {
		return readText(flag, "standard input", a.in, limit)
	}
	path, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return value, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	defer func() { _ = f.Close() }() // only read
	return readText(flag, path, f, limit)
}

func readText(flag, name string, r io.Reader, limit int) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return "", fmt.Errorf("%s: read %s: %w", flag, name, err)
	}
	if len(b) > limit {
		return "", usagef("%s: %s is longer than %d bytes", flag, name, limit)
	}
	return string(b), nil
}
