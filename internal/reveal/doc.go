// Package reveal makes untrusted text safe to decide on: people see what is really there, and
// two different texts never look the same.
//
// Four kinds of characters become visible marks such as ‹U+202E›:
//
//   - what a terminal obeys or does not show: control characters, characters that change the
//     direction of text, invisible ones, unusual spaces, broken UTF-8;
//   - what looks like ASCII: a Cyrillic а in a Latin word, or in a word of only such letters,
//     full-width and mathematical letters, the fraction slash, dashes at the beginning of a
//     word;
//   - combining marks that strike text out, pile up, or have no letter;
//   - the brackets of the marks themselves, so that no text can imitate one.
//
// Text in other scripts is unchanged: a Russian sentence is shown, but a Russian letter in an
// English word is marked. (Scripts in which most letters look Latin, such as Cherokee, are
// always marked.) [Name] is for names of people and programs: it leaves letters of every
// script unchanged and marks only the first kind, loose combining marks and the brackets.
// Nothing is lost: the marks name the characters, so the text can be recovered.
package reveal
