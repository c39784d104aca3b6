/** The sample's manifest is valid for the platform, and asks for nothing that the guide denies. */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { test } from 'node:test';

// With the programs that the platform's own package checks with. It does not export its schema.
const entry = createRequire(import.meta.url).resolve('@forge/manifest');
const require = createRequire(entry);
const YAML = require('yaml');
const Ajv = require('ajv');
const schema = JSON.parse(
  await readFile(entry.replace(/out\/index\.js$/, 'out/schema/manifest-schema.json'), 'utf8'),
);

const sample = new URL('../sample/', import.meta.url);
const text = await readFile(new URL('manifest.yml', sample), 'utf8');
const manifest = YAML.parse(text.replaceAll('${EDS_HOST}', 'eds.example.com'));

test('the manifest is valid', () => {
  const ajv = new (Ajv.default ?? Ajv)({ allErrors: true, strict: false, validateFormats: false });
  const validate = ajv.compile(schema);
  assert.ok(validate(manifest), JSON.stringify(validate.errors, null, 2));
});

test('an invalid manifest is not', () => {
  const ajv = new (Ajv.default ?? Ajv)({ strict: false, validateFormats: false });
  assert.ok(!ajv.compile(schema)({ ...manifest, modules: { trigger: [{ key: 7 }] } }));
});

test('it asks for one host, for no scope, and claims no category', () => {
  const { scopes, external } = manifest.permissions;
  assert.deepEqual(scopes, []);
  assert.deepEqual(
    external, { fetch: { backend: [{ address: 'https://eds.example.com', inScopeEUD: false }] } },
  );
});

test('each function that the manifest names is exported', async () => {
  const source = await readFile(new URL('src/index.js', sample), 'utf8');
  const exported = new Set([...source.matchAll(/export const (\w+)/g)].map(([, name]) => name));
  const handlers = manifest.modules.function.map(({ handler }) => handler.replace('index.', ''));
  assert.deepEqual(new Set(handlers), exported);
});
