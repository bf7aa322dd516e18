// Package reveal makes text from strangers safe to decide on: what a person
// sees is what stands there, and two different texts never look the same.
//
// Four kinds of characters become visible marks such as ‹U+202E›:
//
//   - what a terminal obeys or does not show: control characters, characters
//     that turn the direction of text, invisible ones, unusual spaces, broken
//     UTF-8;
//   - what looks like something else in ASCII: a Cyrillic а in a Latin word or
//     in a word of its kind alone, full-width and mathematical letters, the
//     fraction slash, dashes at the beginning of a word;
//   - combining marks that strike text out, that pile up, or that have nothing
//     to stand on;
//   - the brackets of the marks themselves, so that no text can contain one.
//
// Text in other scripts stays as it is: a Russian sentence is shown, a Russian
// letter in an English word is not. (Scripts most of whose letters look Latin,
// such as Cherokee, are always marked.) [Name] is for names of people and programs:
// it leaves letters of every script as they are and marks only the first kind, loose
// combining marks and the brackets. Nothing is lost: the marks name the
// characters, so the text can be read back from them.
package reveal
