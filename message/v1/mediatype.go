package v1

import (
	"path"
	"strings"

	"github.com/askance-dev/askance/message"
)

// types maps file name extensions that agents use to media types. The system's own
// table differs between machines, this one does not.
var types = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
	".svg": "image/svg+xml", ".bmp": "image/bmp", ".tif": "image/tiff", ".tiff": "image/tiff", ".heic": "image/heic", ".avif": "image/avif",
	".mp3": "audio/mpeg", ".wav": "audio/wav", ".ogg": "audio/ogg", ".oga": "audio/ogg", ".flac": "audio/flac",
	".m4a": "audio/mp4", ".aac": "audio/aac", ".opus": "audio/opus", ".amr": "audio/amr",
	".mp4": "video/mp4", ".mpeg": "video/mpeg", ".mpg": "video/mpeg", ".mov": "video/quicktime", ".webm": "video/webm",
	".avi": "video/x-msvideo", ".mkv": "video/x-matroska",
	".pdf": "application/pdf", ".zip": "application/zip", ".gz": "application/gzip", ".tar": "application/x-tar",
	".json": "application/json", ".xml": "application/xml", ".txt": "text/plain", ".md": "text/markdown",
	".csv": "text/csv", ".html": "text/html", ".htm": "text/html",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}

// guess returns the media type of what a URL in a block of that kind points to. The
// type always belongs to the kind, so kindOf gives the kind again; kind "" is any.
func guess(url string, kind BlockType) string {
	t := types[strings.ToLower(path.Ext(lastPart(url)))]
	switch {
	case kind == "" || kind == BlockFile && kindOf(t) == BlockFile:
		if t != "" {
			return t
		}
	case t != "" && kindOf(t) == kind:
		return t
	}
	if kind == "" || kind == BlockFile {
		return "application/octet-stream"
	}
	return string(kind) + "/*"
}

// kindOf returns the block type for data of a media type.
func kindOf(mediaType string) BlockType {
	kind, _, _ := strings.Cut(mediaType, "/")
	switch k := BlockType(strings.ToLower(kind)); k {
	case BlockImage, BlockAudio, BlockVideo:
		return k
	}
	return BlockFile
}

// lastPart returns the last part of the path of a URL.
func lastPart(url string) string {
	url, _, _ = strings.Cut(url, "#")
	url, _, _ = strings.Cut(url, "?")
	return url[strings.LastIndexByte(url, '/')+1:]
}

// inline reads a data: URL with base64.
func inline(url string) (*message.Base64Source, bool) {
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok {
		return nil, false
	}
	head, data, ok := strings.Cut(rest, ",")
	mediaType, encoded := strings.CutSuffix(head, ";base64")
	if !ok || !encoded || mediaType == "" || strings.Contains(data, "%") {
		return nil, false
	}
	return &message.Base64Source{Data: data, MediaType: mediaType}, true
}
