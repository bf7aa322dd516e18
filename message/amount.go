package message

import (
	"errors"
	"math/big"
	"regexp"
	"strings"
)

// amountForm is a decimal number that is kept exactly: no sign, no exponent, at
// most 18 digits before the point and 9 behind it.
var amountForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})(\.[0-9]{1,9})?$`)

const amountPlaces = 9

// CheckAmount says what is wrong with a decimal number of a budget.
func CheckAmount(text string) error {
	if !amountForm.MatchString(text) {
		return errors.New("it is no decimal number from 0 on, with at most 18 digits before the point and 9 behind it")
	}
	return nil
}

// subtract takes amount from left, exactly.
func subtract(left, amount string) (string, error) {
	for _, text := range []string{left, amount} {
		if err := CheckAmount(text); err != nil {
			return "", err
		}
	}
	a, ok := new(big.Rat).SetString(left)
	b, ok2 := new(big.Rat).SetString(amount)
	if !ok || !ok2 {
		return "", errors.New("it is no number")
	}
	if a.Cmp(b) < 0 {
		return "", errors.New("the call needs " + amount)
	}
	text := a.Sub(a, b).FloatString(amountPlaces)
	return strings.TrimRight(strings.TrimRight(text, "0"), "."), nil
}
