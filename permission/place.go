package permission

// Place is where something stands in a rule file. The zero Place is that of
// things made in Go.
type Place struct {
	File string `json:"file,omitzero"`
	Line int    `json:"line,omitzero"` // from 1
	Col  int    `json:"col,omitzero"`  // from 1, in characters
}
