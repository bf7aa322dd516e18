package shell

import (
	"path"
	"regexp"
	"strings"
)

// This file looks at commands that write files whose names the line does not have: archives that
// are unpacked, and downloads.

// unpackers write the files that an archive names, and decompressors one beside the archive: anyFile.
var (
	unpackers     = setOf("tar bsdtar unzip 7z 7za 7zz cpio pax unrar ar jar")
	decompressors = setOf("gunzip gzip pigz bunzip2 bzip2 unxz xz unlzma lzma unzstd zstd unlz4 lz4 lzop lzip brotli uncompress")
)

// fetches matches commands that save files whose names they do not have, and packs commands of
// unpackers that only pack or list: the first option of tar that is an operation decides.
var (
	fetches = regexp.MustCompile(`^(?:aria2c|yt-dlp|youtube-dl|(?:git|hg|gh) (?:.* )?clone|(?:gh|pip3?) (?:.* )?download|p?npm (?:.* )?pack|svn (?:.* )?(?:co|checkout|export)|` +
		`curl (?:.* )?(?:-\w*[JK]\w*|--remote-header\S*|--config)|wget (?:.* )?(?:-\w*[irm]\w*|--(?:content-d|rec|mir|input)\S*)|(?:(?:aws|gsutil|rclone) (?:.* )?(?:r?sync|copy)|scp|rsync) (?:.* )?\S*:\S*(?: -\S*)* [^-\s]\S*)(?: |=|$)`)
	packs = regexp.MustCompile(`^(?:bsd)?tar (?:-?|(?:-[zjJvp]+ )+-)[zjJvp]*[ctru][ctruzjJvp]*f?(?: |$)|^(?:gzip|pigz|bzip2|xz|lzma|zstd|lzop|lzip|brotli)(?: (?:[^-\s]\S*|-[0-9cfkqvT]+|--(?:best|fast|keep|force)))*$`)
)

// packedAs has what compressors add to the name of a file.
var packedAs = map[string]string{"gzip": ".gz", "pigz": ".gz", "bzip2": ".bz2", "xz": ".xz", "lzma": ".lzma", "zstd": ".zst", "lzop": ".lzo", "lzip": ".lz", "brotli": ".br"}

// addPacked adds the archive that a command makes of files, which may be one of the files.
func addPacked(name string, words []Word, targets map[string]bool) {
	if len(targets) == 0 {
		return
	}
	for i, w := range words {
		switch suffix := packedAs[name]; {
		case suffix != "" && targets[path.Clean(w.Text)]:
			targets[path.Clean(w.Text)+suffix] = true
		case suffix == "" && i > 0 && strings.HasSuffix(words[i-1].Text, "f"): // tar cf x s
			targets[path.Clean(w.Text)] = true
		}
	}
}

// is reports whether the words of the command match a pattern.
func (c *Command) is(pattern *regexp.Regexp) bool {
	name, _ := c.program()
	return pattern.MatchString(strings.Join(append([]string{name}, c.Args()[1:]...), " "))
}

// Marks among the written files: any file, also among those of the system, also a program in the
// folders in which programs are looked for.
const (
	anyFile    = "\x00"
	anyPlace   = "\x01"
	anyProgram = "\x02"
)

// systemPath matches a path where archives are unpacked only on request, unpacksAway such requests,
// and holdsPrograms folders with programs in them or below.
var (
	systemPath    = regexp.MustCompile(`^/(?:usr/)?(?:local/)?s?bin/[^/]*$`)
	unpacksAway   = regexp.MustCompile(`^-[a-zA-Z]*[CdDPo]|^--(?:dir|abs|cd)|^[a-zA-Z]*[CP]|^/|=/|^~`)
	holdsPrograms = regexp.MustCompile(`^(?:-[a-zA-Z]|.*=)?(?:/|/usr(?:/local)?/?)$|(?:\.local|(?:^|[/=CdDo])s?bin)/?$`)
)

// namesArchive reports whether an argument may name one of the files, also as a glob or glued to
// options: xzfa.tgz.
func namesArchive(words []Word, files map[string]bool) bool {
	for i, w := range words {
		if len(files) > 0 && !w.Fixed || w.namesFile(files) {
			return true
		}
		for f := range files {
			if (i == 0 || isCluster(w.Text)) && strings.HasSuffix(w.Text, path.Base(f)) {
				return true
			}
		}
	}
	return false
}

func addUnpacked(words []Word, files map[string]bool) {
	files[anyFile] = true
	for _, w := range words {
		if unpacksAway.MatchString(w.Text) || !w.Fixed {
			files[anyPlace] = true
		}
		if holdsPrograms.MatchString(w.Text) {
			files[anyProgram] = true
		}
	}
}
