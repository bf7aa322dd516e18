//go:build !race

package view

const slower = 1
