package proof

import (
	"github.com/askance-dev/askance/message"
	"github.com/transparency-dev/merkle/compact"
	merkleproof "github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

var ranges = compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}

// Root is the RFC 6962 Merkle root over leaves in their order.
func Root(leaves []Hash) Hash {
	root, _ := build(leaves, nil)
	return root
}

// build computes the root and shows every node of the tree to visit.
func build(leaves []Hash, visit compact.VisitFn) (Hash, error) {
	if len(leaves) == 0 {
		return Hash(rfc6962.DefaultHasher.EmptyRoot()), nil
	}
	r := ranges.NewEmptyRange(0)
	for i := range leaves {
		if err := r.Append(leaves[i][:], visit); err != nil {
			return Hash{}, err
		}
	}
	root, err := r.GetRootHash(visit)
	if err != nil {
		return Hash{}, err
	}
	return Hash(root), nil
}

// Path is the RFC 6962 inclusion proof of the leaf at index: the hashes next to
// the way from it to the root.
func Path(leaves []Hash, index uint64) ([]Hash, error) {
	fail := func(err error) ([]Hash, error) {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "prove inclusion", What: "there is no such leaf", Err: err}
	}
	need, err := merkleproof.Inclusion(index, uint64(len(leaves)))
	if err != nil {
		return fail(err)
	}
	found := map[compact.NodeID][]byte{}
	for _, id := range need.IDs {
		found[id] = nil
	}
	if _, err := build(leaves, func(id compact.NodeID, hash []byte) {
		if _, want := found[id]; want {
			found[id] = hash
		}
	}); err != nil {
		return fail(err)
	}
	hashes := make([][]byte, len(need.IDs))
	for i, id := range need.IDs {
		hashes[i] = found[id]
	}
	path, err := need.Rehash(hashes, rfc6962.DefaultHasher.HashChildren)
	if err != nil {
		return fail(err)
	}
	out := make([]Hash, len(path))
	for i, h := range path {
		out[i] = Hash(h)
	}
	return out, nil
}

// Included reports whether path leads from the leaf at index to the root of a
// tree of size leaves.
func Included(leaf Hash, index, size uint64, path []Hash, root Hash) bool {
	hashes := make([][]byte, len(path))
	for i := range path {
		hashes[i] = path[i][:]
	}
	return merkleproof.VerifyInclusion(rfc6962.DefaultHasher, index, size, leaf[:], hashes, root[:]) == nil
}
