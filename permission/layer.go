package permission

// Layer is whose policy a file is. Higher layers come first; a lower one can
// add rules, and can take out rules of higher layers that are not locked.
// Layers never decide between rules: a deny of any layer denies.
type Layer string

// The layers, from the highest to the lowest.
const (
	LayerManaged Layer = "managed" // the organisation's
	LayerProject Layer = "project" // the default
	LayerUser    Layer = "user"
	LayerRun     Layer = "run" // of one run, as from a command line
)

// layers in their order.
var layers = []Layer{LayerManaged, LayerProject, LayerUser, LayerRun}
