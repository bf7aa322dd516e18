package web

import (
	"net/url"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/message"
)

// Check reads what a gateway needs and begins nothing. It reports an *Error if the
// gateway would let strangers in, show passwords to the network, or cannot be as
// it was asked for, and what is wrong with files.
func (c Config) Check() error {
	if c.Address != Off {
		if _, _, err := c.hostPort(); err != nil {
			return err
		}
	}
	if err := c.checkSocket(); err != nil {
		return err
	}
	if err := c.strangers(); err != nil {
		return err
	}
	if _, err := c.certificate(); err != nil {
		return err
	}
	if c.Public != "" {
		if u, err := url.Parse(c.Public); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return &Error{"--http-url " + c.Public + " is not a URL such as https://inbox.example"}
		}
	}
	if err := gateway.CheckOrigins(c.Origins); err != nil {
		return &Error{"--http-origin: " + err.Error()}
	}
	if len(c.Origins) > 0 && c.open() {
		return &Error{"--http-origin " + c.Origins[0] + " needs tokens or a provider: a page of another site has no other way to say who sends its requests, and cookies never go with them; make a token with askance token create NAME --role approver, name a provider with --oidc-issuer, or leave out --http-origin"}
	}
	if c.Tokens != "" {
		if _, err := auth.OpenTokens(c.Tokens, c.Log); err != nil {
			return err
		}
	}
	if c.OIDC.Issuer == "" {
		return nil
	}
	if u, err := url.Parse(c.OIDC.Issuer); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return &Error{"--oidc-issuer " + c.OIDC.Issuer + " is not a URL such as https://id.example"}
	}
	o := c.OIDC
	o.Redirect, o.Space = "http://localhost/", message.SpaceID("default") // neither is known yet
	if _, err := auth.NewOIDC(o); err != nil {
		return &Error{"--oidc-role and the like: " + err.Error()}
	}
	return nil
}
