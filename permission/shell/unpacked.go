package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// This file looks at commands that write files whose names the line does not have: archives that
// are unpacked, and downloads.

// unpackers write the files that an archive names, and decompressors one beside the archive: anyFile.
var (
	unpackers     = setOf("tar bsdtar unzip 7z 7za 7zz cpio pax unrar ar jar")
	decompressors = setOf("gunzip gzip pigz bunzip2 bzip2 unxz xz unlzma lzma unzstd zstd unlz4 lz4 lzop lzip brotli uncompress")
)

// namesElse matches options of curl and wget with which others name the files, and packing commands of
// unpackers that only pack or list: the first option of tar that is an operation decides.
var (
	namesElse = map[string]*regexp.Regexp{
		"curl": regexp.MustCompile(`^(?:-[afgijklnpqsvBGILMNORSVZ0-9#]*[JK]|--remote-h|--conf)`),
		"wget": regexp.MustCompile(`^(?:-[bcdknpqvxEFHKLNS0-9]*[irm]|--(?:content-d|rec|mir|input))`),
	}
	packing = regexp.MustCompile(`^(?:bsd)?tar (?:-?|(?:-[zjJvp]+ )+-)[zjJvp]*[ctru][ctruzjJvp]*f?(?: |$)|^(?:gzip|pigz|bzip2|xz|lzma|zstd|lzop|lzip|brotli)(?: (?:[^-\s]\S*|-[0-9cfkqvT]+|--(?:best|fast|keep|force)))*$`)
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

// packs reports whether the command only packs or lists files; GZIP=-d gzip a.gz may unpack one.
func (c *Command) packs() bool {
	name, _ := c.program()
	return packing.MatchString(strings.Join(append([]string{name}, c.Args()[1:]...), " ")) && len(c.Assigns) == 0 && !slices.Contains(c.Via, "env") &&
		!slices.ContainsFunc(c.Argv, func(w Word) bool { return !w.Fixed })
}

// packSettings matches the names of variables that give a compressor or tar further options, and unquote
// joins such a name if it is written in parts.
var (
	packSettings = regexp.MustCompile(`XZ_|GZIP|BZIP|TAR_OPT|ZSTD_|LZOP`)
	unquote      = strings.NewReplacer(`"`, "", `'`, "", `\`, "")
)

// fetches reports whether the command saves files whose names it does not have.
func (c *Command) fetches() bool {
	name, ok := c.program()
	if !ok {
		return false
	}
	args := c.Argv[1:]
	switch name {
	case "aria2c", "yt-dlp", "youtube-dl":
		return true
	case "curl", "wget":
		return slices.ContainsFunc(args, func(w Word) bool { return namesElse[name].MatchString(w.Text) })
	case "git":
		rest := GitCommand(args)
		return len(rest) > 0 && rest[0].Text == "clone"
	case "hg", "svn":
		return behind(args, "clone co checkout export") != nil
	case "gh":
		return behind(behind(args, "repo gist release run attestation"), "clone download") != nil
	case "pip", "pip3", "npm", "pnpm":
		return len(operands(behind(args, "download pack"))) > 0
	case "gcloud":
		args = behind(args, "storage")
	case "aws":
		args = behind(args, "s3")
	case "scp", "rsync":
		return fromHost(args)
	case "gsutil", "rclone":
	default:
		return false
	}
	return fromHost(behind(args, "rsync sync copy")) || (shortOption(args, "rR") || holdsWord(args, "--recursive")) && fromHost(behind(args, "cp"))
}

// behind returns what follows a sub-command, which is the first operand, or a later one if the
// options before it may have values; nil without one.
func behind(args []Word, subs string) []Word {
	options := 0
	for i, a := range args {
		switch {
		case strings.HasPrefix(a.Text, "-"):
			options++
		case isListed(subs, a.Text):
			return args[i+1:]
		case options == 0:
			return nil
		default:
			options--
		}
	}
	return nil
}

// fromHost reports whether arguments copy from another host: h:x and where to.
func fromHost(args []Word) bool {
	words := operands(args)
	from := slices.IndexFunc(words, func(w Word) bool { return strings.Contains(w.Text, ":") })
	return from >= 0 && from < len(words)-1
}

// Marks among the written files.
const (
	anyFile    = "\x00" // any file, except those of the system
	anyPlace   = "\x01" // also one of the system
	anyProgram = "\x02" // also a program in the folders in which programs are looked for
	anyProject = "\x03" // not only from a fetch of packages, whose scripts do not run by themselves
	anyRepo    = "\x04" // not only from a clone, which brings no settings of git
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
	for i, w := range words {
		if _, value, _ := strings.Cut(w.Text, "="); i > 0 || value != "" { // gh release download -O bin/x
			for _, file := range []string{w.Text, value, w.Text[min(2, len(w.Text)):]} {
				if strings.Contains(file, "/") {
					files[path.Clean(file)] = true
				}
			}
		}
		if unpacksAway.MatchString(w.Text) || !w.Fixed {
			files[anyPlace] = true
		}
		if holdsPrograms.MatchString(w.Text) {
			files[anyProgram] = true
		}
	}
}
