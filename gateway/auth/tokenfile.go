package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// readFile reads a token file. What others may write says nothing about who is
// who.
func readFile(path string) ([]Token, error) {
	data, info, err := plainfile.Read(path, maxTokenFile)
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "read tokens", What: path + " may be written by others than its owner", Hint: "chmod 600 " + path}
	}
	tokens, err := parseFile(data)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "read tokens", What: path + ": " + err.Error(), Hint: "make tokens with askance token create"}
	}
	return tokens, nil
}

// ListTokens reads a token file; nothing if there is none.
func ListTokens(path string) ([]Token, error) {
	tokens, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return tokens, err
}

// CreateToken adds a token to a file, which is made if it is not there. The
// secret is not kept: it is shown this once.
func CreateToken(ctx context.Context, path string, t Token) (secret string, kept Token, err error) {
	secret, t.ID, t.Hash = newToken()
	t.Created, t.Expires = time.Now().UTC().Truncate(time.Second), t.Expires.UTC().Truncate(time.Second)
	if err := t.check(); err != nil {
		return "", t, &message.Error{Code: message.CodeInvalid, Op: "create token", What: err.Error(), Hint: "choose another"}
	}
	err = change(ctx, path, func(all []Token) ([]Token, error) { return append(all, t), nil })
	if err != nil {
		return "", t, err
	}
	return secret, t, nil
}

// RevokeTokens takes tokens back: that with the id, or all of a name.
func RevokeTokens(ctx context.Context, path, idOrName string) (revoked []Token, err error) {
	err = change(ctx, path, func(all []Token) ([]Token, error) {
		now := time.Now().UTC().Truncate(time.Second)
		for i, t := range all {
			if (t.ID == idOrName || t.Name == idOrName) && t.Revoked.IsZero() {
				all[i].Revoked = now
				revoked = append(revoked, all[i])
			}
		}
		if len(revoked) == 0 {
			return nil, &message.Error{Code: message.CodeNotFound, Op: "revoke token", What: "no token in force has the id or the name " + quote(idOrName), Hint: "askance token list shows them"}
		}
		return all, nil
	})
	return revoked, err
}

// lockFor is how long another change of the file is waited for.
const lockFor = 5 * time.Second

// change writes a file whole or not at all, one change after the other.
func change(ctx context.Context, path string, f func([]Token) ([]Token, error)) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("change tokens: %w", err)
	}
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(ctx, lockFor)
	defer cancel()
	if ok, err := lock.TryLockContext(ctx, lockFor/100); err != nil || !ok {
		return &message.Error{Code: message.CodeUnavailable, Op: "change tokens", What: "another process changes " + path, Hint: "try again", Err: err}
	}
	defer func() { _ = lock.Unlock() }() // it ends with the process at the latest
	all, err := ListTokens(path)
	if err == nil {
		all, err = f(slices.Clone(all))
	}
	if err != nil {
		return err
	}
	return write(path, all)
}

func write(path string, all []Token) error {
	b, err := strictjson.Marshal(file{V: 1, Tokens: all})
	if err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, b, "", "  "); err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	pretty.WriteByte('\n')
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tokens-*") // for the owner alone
	if err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // renamed by then, if all went well
	_, err = tmp.Write(pretty.Bytes())
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	return nil
}
