package message

// SourceType is the discriminator of a data block's source.
type SourceType string

// The source types of AgentScope 2.0.
const (
	SourceBase64 SourceType = "base64"
	SourceURL    SourceType = "url"
)

// Source is where a data block's bytes are: *Base64Source or *URLSource.
//
//sumtype:decl
type Source interface {
	// Type is the discriminator.
	Type() SourceType
	// MarshalJSON gives the source as AgentScope writes it.
	MarshalJSON() ([]byte, error)

	isSource()
}

// Base64Source carries the bytes in the message. Data is not checked to be
// base64 until an event appends to it.
type Base64Source struct {
	Data      string `json:"data" wire:"required"`
	MediaType string `json:"media_type" wire:"required"`
}

// URLSource points to the bytes. URL is absolute; it is normalised, as the
// WHATWG URL standard does, whenever it is read or written.
type URLSource struct {
	URL       string `json:"url" wire:"required,url"`
	MediaType string `json:"media_type" wire:"required"`
}

// Type returns SourceBase64.
func (*Base64Source) Type() SourceType { return SourceBase64 }

// Type returns SourceURL.
func (*URLSource) Type() SourceType { return SourceURL }

func (*Base64Source) isSource() {}
func (*URLSource) isSource()    {}
