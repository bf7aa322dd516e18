package shell_test

import "testing"

const (
	hit   = "matches"
	miss  = "does not match"
	cloud = "unclear"
)

func TestMatches(t *testing.T) {
	for _, tt := range []struct{ rule, line, want string }{
		// At any place in the line.
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
		// In any spelling.
		{"rm:*", "/bin/rm x", hit},
		{"rm:*", `\rm x`, hit},
		{"rm:*", `"r"m x`, hit},
		{"rm:*", "$'\\x72m' x", hit},
		{"rm:*", "{rm,x}", hit},
		{"rm:*", "A=1 rm x", hit},
		{"rm:*", ">f rm x", hit},
		{"rm:*", "=rm x", hit},
		{"rm:*", "zsh -c '=rm x'", hit},
		{"rm:*", "sudo =rm x; zsh -c 'noglob =/bin/rm x'", hit},
		{"rm -rf:*", "zsh -c '=rm -r -f x'", hit},
		{"git push:*", "=git -C d push", hit},
		{"rm:*", "=rmdir x; echo =rm", miss},
		{"rm:*", "zsh -c 'zmodload zsh/files; zf_rm x'", hit},
		{"rm -r:*", "zf_rm -fr x", hit},
		{"chmod 777:*", "zf_chmod 777 x", hit},
		{"rm:*", "zf_rmdir x", miss},
		{"git push --force:*", "git push --force-with-lease origin main", hit},
		{"git push --force:*", "git push origin main --force-with-l=main", hit},
		{"git push --force:*", "git push --forc", hit},
		{"git push --force:*", "git push -uf origin", hit},
		{"git push --force:*", "git push origin +main", hit},
		{"git push --force *", "git push --force-with-lease", hit},
		{"git push --force:*", "git push --force-if-includes", miss},
		{"git push --force:*", "git push --follow-tags", miss},
		{"cp --recursive:*", "cp -R a b", hit},
		// With every program that runs it.
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
		{"rm:*", "awk '/[]/]\"/ {print | \"rm x\"} #\"' f", hit},
		{"rm:*", "awk '/[a[:alpha:]/]\"/ {print | \"rm x\"} #\"' f", hit},
		{"rm:*", "awk '/\"/ {print | \"rm x\"} /\"/' f", hit},
		{"rm:*", "awk '# \"\n{print | \"rm x\"} #\"' f", hit},
		{"rm:*", "awk '{x = $1 / 2; print | \"rm x\"; y = 1 / 3}' f", hit},
		{"rm:*", "awk '/x/ || /a|b/ {print | \"rm x\"}' f", hit},
		{"rm:*", "awk '(1)/2 {print | \"rm x\"} /a/' f", hit},
		{"rm:*", "awk '{a = 1 \\\n/ 2 | \"rm x\" / 3}' f", hit},
		{"rm:*", "awk '/a|rm x/ {print}' f", miss},
		{"rm:*", "awk '$1==\"rm x\"||/b|c/ {printf \"%s|rm x\\n\", $1}' f", miss},
		{"rm:*", "awk '{print \"rm x\" > \"f\"}' f", miss},
		{"rm:*", "busybox rm x", hit},
		{"rm:*", "flock f rm x; watch -n 1 rm x; parallel rm", hit},
		{"rm:*", "ssh h rm x; ssh h 'ls; rm x'", hit},
		{"rm:*", "su -c 'rm x'; script -qc 'rm x' f", hit},
		{"rm:*", "some-wrapper --x rm x", hit},
		{"rm:*", "docker exec c rm x", hit},
		{"rm:*", "gcc -wrapper rm,x foo.c", hit},
		{"rm:*", "env g++ foo.c -wrapper env,rm,x", hit},
		{"rm:*", "gcc -wrapper sh,-c,'rm x' foo.c", hit},
		{"rm:*", "gcc -wrapper $X foo.c", cloud},
		{"rm:*", "gcc -wrapper gdb,--args foo.c", miss},
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
		// Something else.
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
		{"rm:*", `puppet apply -e 'exec{"rm x":path=>"/bin"}'; bb -e '(sh"rm""x")'`, hit},
		// Options in another order, or before the sub-command.
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
		{"npm install", "npm i", hit},
		{"npm install", "npm init", miss},
		// Unclear lines.
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
		got := answer(t, tt.rule, tt.line)
		if got != tt.want {
			t.Errorf("%q on %q: %s, want: %s", tt.rule, tt.line, got, tt.want)
		}
	}
}

// A push that names no branch may be one to the branch of a rule. It is none with the options of
// a rule that it does not have.
func TestPushWithoutABranch(t *testing.T) {
	for line, want := range map[string]string{
		"git push": cloud, "git push origin": cloud, "git push --all": cloud, "git push origin --al": cloud, "git push --branches origin": cloud,
		"git push origin HEAD": cloud, "git push -u origin @": cloud, "git push origin :": cloud, "git push origin 'refs/heads/*'": cloud,
		"git push origin dev 'refs/*:refs/*'": cloud, "git -c push.default=matching push": cloud, "git push -o x origin": cloud,
		"git push origin @:main": hit, "git push origin 'HEAD@{1}:main'": hit, "git push origin dev main --all": hit, "git push --mirror": cloud,
		"git subtree push --prefix=x origin main": hit, "git subtree --prefix x push origin main": hit, "git for-each-repo --config=x push origin main": hit,
		"git push origin dev": miss, "git push --tags": miss, "git push origin HEAD:dev": miss, "git push git@h.test:x dev": miss, "git stash push": miss,
	} {
		if got := answer(t, "git push origin main", line); got != want {
			t.Errorf("%q: %s, want: %s", line, got, want)
		}
		if got := answer(t, "git push --no-verify:*", line); got != miss {
			t.Errorf("--no-verify on %q: %s", line, got)
		}
		if got := answer(t, "git push --force origin main", line); got == cloud && line != "git push --mirror" {
			t.Errorf("--force on %q: %s", line, got)
		}
	}
}

// A wildcard that ends in a branch may be about a push that names none.
func TestWildcardOfABranch(t *testing.T) {
	for _, tt := range []struct{ rule, line, want string }{
		{"git push * main", "git push", cloud}, {"git push * main", "git push --all", cloud}, {"git * main", "git push origin HEAD", cloud},
		{"git push origin *main", "git push origin", cloud}, {"git push * main", "git push origin dev", miss}, {"git push *", "git push", hit},
		{"git push --force *", "git push", miss}, {"git push * --force", "git push", miss}, {"git push * main", "git pull", miss}, {"git push upstream * main", "git push origin", miss},
	} {
		if got := answer(t, tt.rule, tt.line); got != tt.want {
			t.Errorf("%q on %q: %s, want: %s", tt.rule, tt.line, got, tt.want)
		}
	}
}

// An alias of git runs what the line says of it, with the arguments behind it.
func TestAliasOfGit(t *testing.T) {
	for _, line := range []string{
		"git config alias.p push && git p origin main", "git config set alias.P push; git p origin main", "git config alias.p '!git push'; git p origin main",
		"git -c alias.p='!git push' p origin main", "git -c alias.p='!git' p push origin main",
	} {
		if got := answer(t, "git push origin main", line); got != hit {
			t.Errorf("%q: %s", line, got)
		}
	}
	if got := answer(t, "git push origin main", "git config alias.p status && git q origin main"); got != miss {
		t.Errorf("another alias: %s", got)
	}
}
