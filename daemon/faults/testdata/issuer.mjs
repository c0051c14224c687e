// An issuer of OAuth 2.0 tokens for client credentials, by npm's oauth2-mock-server: ISSUER_PORT, ISSUER_SECRET, ISSUER_SECONDS that a
// token lasts, ISSUER_KEY, the file of its key, which it makes if there is none. It says on a line each that it listens and what it issued.
import { generateKeyPairSync } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { OAuth2Server } from 'oauth2-mock-server';

const { ISSUER_PORT: port, ISSUER_SECRET: secret, ISSUER_SECONDS: seconds, ISSUER_KEY: file } = process.env;
if (!existsSync(file)) {
  const jwk = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
  writeFileSync(file, JSON.stringify({ ...jwk, kid: 'one', alg: 'RS256' }), { mode: 0o600 });
}
const server = new OAuth2Server();
await server.issuer.keys.add(JSON.parse(readFileSync(file, 'utf8')));
const client = (req) => Buffer.from((req.headers.authorization ?? '').replace('Basic ', ''), 'base64').toString().split(':');
server.service.on('beforeTokenSigning', (token, req) => {
  token.payload.sub = client(req)[0];
  token.payload.exp = token.payload.iat + Number(seconds);
});
server.service.on('beforeResponse', (answer, req) => {
  if (client(req)[1] !== secret) {
    Object.assign(answer, { statusCode: 401, body: { error: 'invalid_client' } });
    return;
  }
  answer.body.expires_in = Number(seconds);
  console.log('issued');
});
await server.start(Number(port), '127.0.0.1');
console.log('listens');
