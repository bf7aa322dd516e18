package inbox

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
)

//go:embed assets
var assetFiles embed.FS

// assetPath is where assets are, below a folder named after their content.
const assetPath = "/assets/"

// assets are the files that pages use.
type assets struct {
	build string // of all content: a new build has new addresses
	files map[string][]byte
}

var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// loadAssets reads what is embedded: it is there.
func loadAssets() *assets {
	a := &assets{files: map[string][]byte{}}
	sum := sha256.New()
	entries, _ := assetFiles.ReadDir("assets")
	for _, e := range entries { // sorted by name
		b, _ := assetFiles.ReadFile("assets/" + e.Name())
		a.files[e.Name()] = b
		sum.Write([]byte(e.Name() + "\x00"))
		sum.Write(b)
	}
	a.build = hex.EncodeToString(sum.Sum(nil)[:8])
	return a
}

// url is the address of an asset.
func (a *assets) url(name string) string { return assetPath + a.build + "/" + name }

// asset serves one. Its address changes with its content, so it may be kept.
func (in *Inbox) asset(w http.ResponseWriter, r *http.Request, _ *gateway.Peer) error {
	name := r.PathValue("file")
	b, ok := in.assets.files[name]
	if !ok || r.PathValue("build") != in.assets.build {
		return &message.Error{Code: message.CodeNotFound, Op: "asset", What: "there is no such file", Hint: "load the page again"}
	}
	h := w.Header()
	h.Set("Content-Type", contentTypes[path.Ext(name)])
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	_, err := w.Write(b)
	return err
}
