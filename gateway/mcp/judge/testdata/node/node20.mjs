// The suite imports fs.globSync, which Node 20 does not have and only its own
// maintenance commands call. This hook lets it load there.
import fs from 'node:fs'
import { register } from 'node:module'

if (!fs.globSync) {
  const shim = `export * from 'node:fs'; export { default } from 'node:fs'; export const globSync = undefined`
  const hook = `export const resolve = (name, context, next) =>
    name === 'fs' ? { url: ${JSON.stringify('data:text/javascript,' + encodeURIComponent(shim))}, shortCircuit: true } : next(name, context)`
  register('data:text/javascript,' + encodeURIComponent(hook))
}
