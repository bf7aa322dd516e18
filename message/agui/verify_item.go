package agui

// item checks the events of messages, calls, activities and reasoning.
func (v *Verifier) item(e Event) error {
	switch e := e.(type) {
	case *TextMessageStart:
		return v.startMessage(e, RuleText, item{itemText, e.MessageID})
	case *TextMessageContent:
		return v.continueItem(e, RuleText, item{itemText, e.MessageID}, false)
	case *TextMessageEnd:
		return v.continueItem(e, RuleText, item{itemText, e.MessageID}, true)
	case *ToolCallStart:
		return v.startCall(e)
	case *ToolCallArgs:
		return v.continueItem(e, RuleCall, item{itemCall, e.ToolCallID}, false)
	case *ToolCallEnd:
		v.calls[e.ToolCallID] = true
		return v.continueItem(e, RuleCall, item{itemCall, e.ToolCallID}, true)
	case *ToolCallResult:
		return v.result(e)
	case *ReasoningStart:
		return v.start(e, RuleReasoning, item{itemSpan, e.MessageID})
	case *ReasoningEnd:
		return v.continueItem(e, RuleReasoning, item{itemSpan, e.MessageID}, true)
	case *ReasoningMessageStart:
		return v.startMessage(e, RuleReasoning, item{itemThought, e.MessageID})
	case *ReasoningMessageContent:
		return v.continueItem(e, RuleReasoning, item{itemThought, e.MessageID}, false)
	case *ReasoningMessageEnd:
		return v.continueItem(e, RuleReasoning, item{itemThought, e.MessageID}, true)
	default:
		return v.checkOwnerOnly(e)
	}
}

// checkOwnerOnly checks events that open and close nothing but have an owner.
func (v *Verifier) checkOwnerOnly(e Event) error {
	switch e := e.(type) {
	case *ActivitySnapshot:
		at := item{itemActivity, e.MessageID}
		if _, known := v.owners[at]; !known || e.Replace == nil || *e.Replace {
			v.owners[at] = ownerOf(e.SubagentRunID)
		}
	case *ActivityDelta:
		return v.checkOwner(e, item{itemActivity, e.MessageID})
	case *ReasoningEncryptedValue:
		if e.Subtype == EncryptedToolCall {
			return v.checkOwner(e, item{itemCall, e.EntityID})
		}
		if _, text := v.owners[item{itemText, e.EntityID}]; text {
			return v.checkOwner(e, item{itemText, e.EntityID})
		}
		return v.checkOwner(e, item{itemThought, e.EntityID})
	default: // state, raw and custom events have no item
	}
	return nil
}

// ownerKey returns the item under which an owner is recorded: a reasoning span and a reasoning
// message with the same id have the same owner.
func ownerKey(at item) item {
	if at.kind == itemSpan {
		at.kind = itemThought
	}
	return at
}

// checkOwner checks that a tagged event does not contradict the recorded owner.
func (v *Verifier) checkOwner(e Event, at item) error {
	tag := ownerOf(tagOf(e))
	if have, known := v.owners[ownerKey(at)]; known && tag.tagged && tag != have {
		return orderError(RuleOwner, e, "%s continues %s %.60q of %s", tag, at.kind, at.id, have)
	}
	return nil
}

func (v *Verifier) start(e Event, rule Rule, at item) error {
	if v.open[at] {
		return orderError(rule, e, "%s %.60q is already open", at.kind, at.id)
	}
	if err := v.checkOwner(e, at); err != nil {
		return err
	}
	v.open[at] = true
	if _, known := v.owners[ownerKey(at)]; !known {
		v.owners[ownerKey(at)] = ownerOf(tagOf(e))
	}
	return nil
}

func (v *Verifier) continueItem(e Event, rule Rule, at item, last bool) error {
	if !v.open[at] {
		return orderError(rule, e, "%s %.60q is not open", at.kind, at.id)
	}
	if last {
		delete(v.open, at)
	}
	return v.checkOwner(e, at)
}

func (v *Verifier) startMessage(e Event, rule Rule, at item) error {
	if err := v.start(e, rule, at); err != nil {
		return err
	}
	return v.checkFreshID(e, at.id)
}

// checkFreshID checks that a message id has not been used.
func (v *Verifier) checkFreshID(e Event, id string) error {
	if v.Strict && v.texts[id] {
		return orderError(RuleMessage, e, "message id %.60q was used before", id)
	}
	v.texts[id] = true
	return nil
}

// startCall also checks a call against its parent message: a call has the owner of the
// message that contains it.
func (v *Verifier) startCall(e *ToolCallStart) error {
	at, tag := item{itemCall, e.ToolCallID}, ownerOf(e.SubagentRunID)
	have, known := v.owners[at]
	parent, inherits := owner{}, false
	if e.ParentMessageID != nil {
		parent, inherits = v.owners[item{itemText, *e.ParentMessageID}]
	}
	if inherits && tag.tagged && tag != parent {
		return orderError(RuleOwner, e, "%s calls within a message of %s", tag, parent)
	}
	if err := v.start(e, RuleCall, at); err != nil {
		return err
	}
	if inherits && !tag.tagged {
		if known && have != parent {
			return orderError(RuleOwner, e, "a call of %s within a message of %s", have, parent)
		}
		v.owners[at] = parent
	}
	v.calls[e.ToolCallID] = false
	return nil
}

func (v *Verifier) result(e *ToolCallResult) error {
	v.owners[item{itemText, e.MessageID}] = ownerOf(e.SubagentRunID)
	if complete, known := v.calls[e.ToolCallID]; v.Strict && !complete {
		return orderError(RuleResult, e, "call %.60q does not have complete arguments (known: %t)", e.ToolCallID, known)
	}
	return v.checkFreshID(e, e.MessageID)
}

// recordOwners records the owners of a history's messages. A snapshot overrides recorded
// owners, an echoed input does not.
func (v *Verifier) recordOwners(history []Message, authority bool) {
	set := func(at item, o owner) {
		if _, known := v.owners[at]; authority || !known {
			v.owners[at] = o
		}
	}
	for _, m := range history {
		kind, o := itemText, ownerOf(m.SubagentRunID)
		switch m.Role {
		case RoleReasoning:
			kind = itemThought
		case RoleActivity:
			kind = itemActivity
		default:
		}
		set(item{kind, m.ID}, o)
		v.texts[m.ID] = true
		for _, c := range m.ToolCalls {
			set(item{itemCall, c.ID}, o)
			v.calls[c.ID] = true
		}
	}
}
