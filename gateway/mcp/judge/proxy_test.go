
// TestHintsAreNotTrusted: a server that says that its tool changes nothing is not
// believed, in either place where it could be.
func TestHintsAreNotTrusted(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	u := newUpstream(t, tool{"wipe", define("wipe", `"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}`), ran("wipe").run})
	p := h.gateway(bot, u, "--hold", "100ms").peer(t, h, bot, false, noCapabilities)
	if r := p.call("wipe", `{}`).result(); r.heldCall() == "" || u.calls("wipe") != 0 {
		t.Errorf("a tool that is said to be read-only runs without an approval: %s", r.raw)
	}
}
