// Package archive reads and writes the files of archived records. An archive has two:
//
//   - NAME.jsonl.zst: the records in order, one [proof.Record] in JSON per line, with
//     its exact headers and body. The file is a series of zstd frames, each with at
//     most [ChunkRecords] records: zstd -dc shows all of them.
//   - NAME.index: a line of JSON with the place of each frame, followed by the frames
//     that have records of each call and reply, found by its [HashOf].
//
// The index is small enough to be kept in memory: 12 bytes for each call and reply.
package archive

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

const (
	// ChunkRecords is the maximum number of records in a frame.
	ChunkRecords = 512
	chunkBytes   = 1 << 20
	maxChunk     = 512 << 20
	maxHead      = 16 << 20
	entryBytes   = 12
)

// The suffixes of the files of an archive.
const (
	FileSuffix  = ".jsonl.zst"
	IndexSuffix = ".index"
)

// HashOf returns the hash by which the records of an entity are found.
func HashOf(entity string) uint64 {
	sum := sha256.Sum256([]byte("askance-archive-v1\n" + entity))
	return binary.BigEndian.Uint64(sum[:])
}

// Chunk is a frame of the file.
type Chunk struct {
	First  uint64 `json:"first_seq"`
	Last   uint64 `json:"last_seq"`
	Offset int64  `json:"offset"`
	Bytes  int    `json:"bytes"`
}

type head struct {
	V       int              `json:"v"` // 1
	Space   toolcall.SpaceID `json:"space"`
	Chunks  []Chunk          `json:"chunks"`
	Entries int              `json:"entries"`
}

// entry says that a chunk has records of an entity.
type entry struct {
	hash  uint64
	chunk uint32
}

func (e entry) compare(o entry) int {
	return cmp.Or(cmp.Compare(e.hash, o.hash), cmp.Compare(e.chunk, o.chunk))
}

// Writer writes the file of an archive and collects its index.
type Writer struct {
	w       io.Writer
	packer  *zstd.Encoder
	lines   []byte
	packed  []byte
	now     Chunk
	records int
	found   map[entry]struct{} // of the current chunk
	head    head
	entries []entry
}

// NewWriter returns a Writer of an archive of a space to w.
func NewWriter(w io.Writer, space toolcall.SpaceID) (*Writer, error) {
	packer, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1))
	return &Writer{w: w, packer: packer, found: map[entry]struct{}{}, head: head{V: 1, Space: space}}, err
}

// Add adds the next record, which belongs to the entities with these hashes.
func (w *Writer) Add(r *proof.Record, entities ...uint64) error {
	line, err := strictjson.Marshal(r)
	if err != nil {
		return err
	}
	if w.records == 0 {
		w.now.First = r.Seq
	}
	w.now.Last = r.Seq
	w.lines = append(append(w.lines, line...), '\n')
	for _, h := range entities {
		w.found[entry{h, uint32(len(w.head.Chunks))}] = struct{}{}
	}
	if w.records++; w.records < ChunkRecords && len(w.lines) < chunkBytes {
		return nil
	}
	return w.flush()
}

func (w *Writer) flush() error {
	if w.records == 0 {
		return nil
	}
	w.packed = w.packer.EncodeAll(w.lines, w.packed[:0])
	w.now.Bytes = len(w.packed)
	if _, err := w.w.Write(w.packed); err != nil {
		return err
	}
	w.endChunk()
	w.lines, w.records = w.lines[:0], 0
	return nil
}

// endChunk adds the current chunk to the index.
func (w *Writer) endChunk() {
	w.head.Chunks = append(w.head.Chunks, w.now)
	for e := range w.found {
		w.entries = append(w.entries, e)
	}
	clear(w.found)
	w.now = Chunk{Offset: w.now.Offset + int64(w.now.Bytes)}
}

// RebuildIndex writes the index of a file again. entities returns the hashes of the entities to
// which a record belongs.
func RebuildIndex(out io.Writer, f io.ReaderAt, size int64, space toolcall.SpaceID, entities func(subject string) []uint64) error {
	w := Writer{found: map[entry]struct{}{}, head: head{V: 1, Space: space}}
	for w.now.Offset < size {
		n, err := frameBytes(f, w.now.Offset)
		if err != nil {
			return err
		}
		w.now.Bytes = n
		records, err := w.now.Read(f)
		if err != nil || len(records) == 0 {
			return cmp.Or(err, errIndex)
		}
		w.now.First, w.now.Last = records[0].Seq, records[len(records)-1].Seq
		for _, r := range records {
			for _, h := range entities(r.Subject) {
				w.found[entry{h, uint32(len(w.head.Chunks))}] = struct{}{}
			}
		}
		w.endChunk()
	}
	return w.WriteIndex(out)
}

// frameBytes returns the size of the zstd frame at an offset, by the headers of its blocks.
func frameBytes(f io.ReaderAt, at int64) (int, error) {
	var b [zstd.HeaderMaxSize]byte
	n, err := f.ReadAt(b[:], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	var h zstd.Header
	if err := h.Decode(b[:n]); err != nil {
		return 0, err
	}
	for size := h.HeaderSize; ; {
		if _, err := f.ReadAt(b[:3], at+int64(size)); err != nil {
			return 0, err
		}
		block := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
		if size += 3; block>>1&3 == 1 { // one byte, repeated
			size++
		} else {
			size += block >> 3
		}
		if block&1 == 1 { // the last one
			if h.HasCheckSum {
				size += 4
			}
			return size, nil
		}
	}
}

// Close writes the last records. The caller closes the file.
func (w *Writer) Close() error {
	return errors.Join(w.flush(), w.packer.Close())
}

// WriteIndex writes the index of a closed Writer.
func (w *Writer) WriteIndex(out io.Writer) error {
	slices.SortFunc(w.entries, entry.compare)
	w.head.Entries = len(w.entries)
	line, err := strictjson.Marshal(w.head)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(out)
	_, err = b.Write(append(line, '\n'))
	var text [entryBytes]byte
	for _, e := range w.entries {
		binary.BigEndian.PutUint64(text[:], e.hash)
		binary.BigEndian.PutUint32(text[8:], e.chunk)
		if err == nil {
			_, err = b.Write(text[:])
		}
	}
	return errors.Join(err, b.Flush())
}

// Index finds the records of each entity in an archive.
type Index struct {
	Chunks []Chunk
	hashes []uint64 // sorted
	chunks []uint32 // position in Chunks for each of hashes
}

var errIndex = errors.New("it is not the index of an archive")

// ReadIndex reads an index whose hash was already verified.
func ReadIndex(b []byte, space toolcall.SpaceID) (*Index, error) {
	line, rest, ok := bytes.Cut(b, []byte("\n"))
	var h head
	if !ok {
		return nil, errIndex
	}
	if err := strictjson.Unmarshal(line, &h, strictjson.MaxBytes(maxHead)); err != nil {
		return nil, err
	}
	if h.V != 1 || h.Space != space || len(rest) != h.Entries*entryBytes {
		return nil, errIndex
	}
	x := &Index{Chunks: h.Chunks, hashes: make([]uint64, h.Entries), chunks: make([]uint32, h.Entries)}
	for i := range x.hashes {
		x.hashes[i], x.chunks[i] = binary.BigEndian.Uint64(rest[i*entryBytes:]), binary.BigEndian.Uint32(rest[i*entryBytes+8:])
		if int(x.chunks[i]) >= len(h.Chunks) {
			return nil, errIndex
		}
	}
	return x, nil
}

// Has reports whether the archive has records of an entity.
func (x *Index) Has(hash uint64) bool {
	_, found := slices.BinarySearch(x.hashes, hash)
	return found
}

// Of returns the chunks with records of an entity, in order.
func (x *Index) Of(hash uint64) []Chunk {
	var out []Chunk
	for i, _ := slices.BinarySearch(x.hashes, hash); i < len(x.hashes) && x.hashes[i] == hash; i++ {
		out = append(out, x.Chunks[x.chunks[i]])
	}
	return out
}

// LastSequence returns the last sequence that the archive has, or 0.
func (x *Index) LastSequence() uint64 {
	if len(x.Chunks) == 0 {
		return 0
	}
	return x.Chunks[len(x.Chunks)-1].Last
}

// From returns the position of the first chunk that ends at or after a sequence.
func (x *Index) From(seq uint64) int {
	i, _ := slices.BinarySearchFunc(x.Chunks, seq, func(c Chunk, seq uint64) int { return cmp.Compare(c.Last, seq) })
	return i
}

// Read reads the records of a chunk.
func (c Chunk) Read(f io.ReaderAt) ([]proof.Record, error) {
	packed := make([]byte, c.Bytes)
	if _, err := f.ReadAt(packed, c.Offset); err != nil {
		return nil, fmt.Errorf("read the records starting at %d: %w", c.First, err)
	}
	reader, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxChunk))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	text, err := reader.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("decompress the records starting at %d: %w", c.First, err)
	}
	var out []proof.Record
	for line := range bytes.Lines(text) {
		var r proof.Record
		if err := strictjson.Unmarshal(line, &r, strictjson.MaxBytes(maxChunk)); err != nil {
			return nil, fmt.Errorf("read a record at or after %d: %w", c.First, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// ReadAll visits every record of a file, without its index.
func ReadAll(f io.Reader, visit func(*proof.Record) error) error {
	reader, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxChunk))
	if err != nil {
		return err
	}
	defer reader.Close()
	lines := bufio.NewReader(reader)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		var r proof.Record
		if err == nil {
			err = strictjson.Unmarshal(line, &r, strictjson.MaxBytes(maxChunk))
		}
		if err == nil {
			err = visit(&r)
		}
		if err != nil {
			return err
		}
	}
}
