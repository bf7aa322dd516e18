package shell_test

import (
	"errors"
	"testing"

	"github.com/askance-dev/askance/permission/shell"
)

const (
	hit   = "matches"
	miss  = "does not match"
	cloud = "unclear"
)

func TestMatches(t *testing.T) {
	for _, tt := range []struct{ rule, line, want string }{
		// Wherever it stands.
		{"rm:*", "rm x", hit},
		{"rm:*", " rm x", hit},
		{"rm:*", "ls; rm x", hit},
		{"rm:*", "ls & rm x", hit},
		{"rm:*", "(cd x && rm y)", hit},
		{"rm:*", "if true; then rm x; fi", hit},
		{"rm:*", "f() { rm x; }", hit},
		{"rm:*", "echo $(rm x)", hit},
		{"rm:*", "echo \"`rm x`\"", hit},
		{"rm:*", "cat <(rm x)", hit},
		{"rm:*", "cat <<E\n$(rm x)\nE", hit},
		{"rm:*", "ls &>f rm x", hit},
		{"rm:*", "echo ${x:-$(rm y)} $((1+$(rm z)))", hit},
		// However it is written.
		{"rm:*", "/bin/rm x", hit},
		{"rm:*", `\rm x`, hit},
		{"rm:*", `"r"m x`, hit},
		{"rm:*", "$'\\x72m' x", hit},
		{"rm:*", "{rm,x}", hit},
		{"rm:*", "A=1 rm x", hit},
		{"rm:*", ">f rm x", hit},
		// Whatever runs it.
		{"rm:*", "env -i A=1 rm x", hit},
		{"rm:*", "env -S 'rm x'", hit},
		{"rm:*", "sudo -u root rm x", hit},
		{"rm:*", "sudo --unknown y rm x", hit},
		{"rm:*", "nice -n 5 timeout -k 1 5 nohup rm x", hit},
		{"rm:*", "command rm x; builtin rm; exec -a y rm x", hit},
		{"rm:*", "ls | xargs -0 -n 1 rm", hit},
		{"rm:*", "ls | xargs -I{} sh -c 'rm {}'", hit},
		{"rm:*", "find . -name x -exec rm {} +", hit},
		{"rm:*", "find . -ok env rm {} ';'", hit},
		{"rm:*", "sh -c 'ls; rm x'", hit},
		{"rm:*", "bash -x -o pipefail -ec 'rm x' y", hit},
		{"rm:*", `bash -c "bash -c 'rm x'"`, hit},
		{"rm:*", "eval rm x; eval 'ls; rm x'", hit},
		{"rm:*", "bash <<< 'rm x'", hit},
		{"rm:*", "sh <<E\nrm x\nE", hit},
		{"rm:*", "{ sh; } <<E\nrm x\nE", hit},
		{"rm:*", "trap 'rm x' EXIT", hit},
		{"rm:*", "alias ls='rm x'", hit},
		{"rm:*", "EDITOR='rm x' git commit", hit},
		{"rm:*", "git -c core.pager='rm x' log", hit},
		{"rm:*", "git grep --open-files-in-pager='rm x' y", hit},
		{"rm:*", "tar cf x --to-command 'rm x' y", hit},
		{"rm:*", "rsync -e 'rm x' a b", hit},
		{"rm:*", "python -c 'import os; os.system(\"rm x\")'", hit},
		{"rm:*", "awk 'BEGIN { system(\"rm x\") }'", hit},
		{"rm:*", "busybox rm x", hit},
		{"rm:*", "flock f rm x; watch -n 1 rm x; parallel rm", hit},
		{"rm:*", "ssh h rm x; ssh h 'ls; rm x'", hit},
		{"rm:*", "su -c 'rm x'; script -qc 'rm x' f", hit},
		{"rm:*", "some-wrapper --x rm x", hit},
		{"rm:*", "docker exec c rm x", hit},
		{"rm:*", "ls 'open; rm x", hit},
		{"rm:*", "while read f; do rm \"$f\"; done < list", hit},
		{"rm:*", "env -S'rm x'; env -Srm x", hit},
		{"rm:*", "env --split-string=rm", hit},
		{"rm:*", "python <<E\nimport os; os.system('rm x')\nE", hit},
		{"rm:*", "ssh h <<E\nrm x\nE", hit},
		{"rm:*", "crontab - <<E\n* * * * * rm x\nE", hit},
		{"rm:*", "sh <<'E'\necho *; \\rm x\nE", hit},
		{"rm:*", "sqlite3 x '.shell rm y'", hit},
		{"rm:*", "test -v 'a[$(rm x)]'", hit},
		{"rm:*", "let 'a[$(rm x)]=1'", hit},
		{"rm:*", "((a['$(rm x)']))", hit},
		{"rm:*", "export EDITOR='rm x'; git commit", hit},
		{"rm:*", "PS4='$(rm x)'; set -x; ls", hit},
		{"rm:*", "hash -p /bin/rm ls; ls x", hit},
		{"rm:*", "mapfile -C 'rm x' -c 1 a", hit},
		{"rm:*", "bash -c -o pipefail 'rm x'", hit},
		{"rm:*", "bash -c 'ls $1' _ \"it's\"", miss},
		{"rm:*", "find . -exec sh -c 'rm \"$1\"' _ {} ';'", hit},
		{"rm:*", "echo rm x | at now", cloud},
		// It is something else.
		{"rm:*", "command -v rm", miss},
		{"rm:*", "which rm; type rm; man rm", miss},
		{"rm:*", "test -f rm", miss},
		{"rm:*", "echo $((1 + 2))", miss},
		{"rm:*", "grep -r rm .", miss},
		{"rm:*", "git rm x", miss},
		{"rm:*", "git commit -m 'rm x; rm y'", miss},
		{"rm:*", "echo rm x", miss},
		{"rm:*", "ls | xargs grep rm", miss},
		{"rm:*", "find . -name rm -type f", miss},
		{"rm:*", "ls # rm x", miss},
		{"rm:*", "rmdir x; farm x", miss},
		{"rm:*", "echo $X; ls *", miss},
		{"rm:*", "cat <<'E'\nrm x\nE", miss},
		{"rm:*", "sudo ls rm", miss},
		{"/opt/rm:*", "/bin/rm x", miss},
		// Options in another order, and before the sub-command.
		{"rm -rf:*", "rm -fr x", hit},
		{"rm -rf:*", "rm -r -f x", hit},
		{"rm -rf:*", "rm x -rf", hit},
		{"rm -rf:*", "rm -rvf x", hit},
		{"rm -rf:*", "rm --recursive --force x", hit},
		{"rm -rf:*", "rm --rec -f x", hit},
		{"rm -rf:*", "rm -R -f x", hit},
		{"rm -rf:*", "rm -r x", miss},
		{"rm -rf *", "rm -fr x", hit},
		{"rm -rf", "rm -fr x", hit},
		{"rm -rf:*", "rm $X", cloud},
		{"git push:*", "git -C d push", hit},
		{"git push:*", "git -c a=b --no-pager push origin", hit},
		{"git push:*", "git --git-dir d push", hit},
		{"git push:*", "cd x && git push", hit},
		{"git push:*", "git stash push", miss},
		{"git push:*", "git log push", miss},
		{"git push --force:*", "git push origin main --force", hit},
		{"git push --force:*", "git push -f origin", hit},
		{"git push --force:*", "git push --forc origin", hit},
		{"git push -f:*", "git push --force", hit},
		{"git push --force:*", "git push origin", miss},
		{"kubectl delete:*", "kubectl -n prod delete pod x", hit},
		{"npm run deploy:*", "npm --silent run deploy", hit},
		{"find . -delete:*", "find . -name x -delete", hit},
		{"find . -delete:*", "find . -type d -newer l -empty", miss},
		// Wildcards and literals.
		{"git * main", "git push origin main", hit},
		{"git * main", "ls && git push main", hit},
		{"git * main", "git push 'a\nb' main", hit},
		{"git * main", "/usr/bin/git push main", hit},
		{"git * main", "git push $X", cloud},
		{"git * main", "ls main", miss},
		{"* --force", "npm x --force; ls", hit},
		{"git *", "git", hit},
		{"git *", "gitk", miss},
		{`a\*b`, "echo 'a*b'", hit},
		{"make", "cmake .", hit},
		{"npm install", "cd x; npm  install", hit},
		{"npm install", "npm i", miss},
		// Nobody knows.
		{"rm:*", "$X y", cloud},
		{"rm:*", "r$X y", cloud},
		{"rm:*", "l$X y", miss},
		{"rm:*", "/bin/r? y", cloud},
		{"rm:*", "$(echo ls) y", cloud},
		{"rm:*", "curl h | sh", cloud},
		{"rm:*", "curl h | { bash; }", cloud},
		{"rm:*", `sh -c "$X"`, cloud},
		{"rm:*", "eval \"$X\"", cloud},
		{"rm:*", "ls | xargs -I% % y", cloud},
		{"rm:*", "find . -exec {} ';'", cloud},
		{"rm:*", "ls 'open", cloud},
		{"git push:*", "git $X", cloud},
	} {
		p := patterns(t, tt.rule)[0]
		matched, err := p.Matches(shell.Parse(tt.line))
		got := miss
		switch {
		case matched:
			got = hit
		case errors.Is(err, shell.ErrUnclear):
			got = cloud
		case err != nil:
			t.Errorf("%q on %q: %v is no ErrUnclear", tt.rule, tt.line, err)
		}
		if got != tt.want {
			t.Errorf("%q on %q: %s, want: %s (%v)", tt.rule, tt.line, got, tt.want, err)
		}
	}
}
