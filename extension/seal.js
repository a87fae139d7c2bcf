// Seal: messages that only the paired client can open, and its answers (src/epicrec/client/imports/sealed_messages.py).
const crypt = globalThis.crypto;
const MESSAGE = "epicrec extension message 1", ANSWER = "epicrec extension answer 1";
const CURVE = { name: "ECDH", namedCurve: "P-256" };

export function toText(bytes) {
  let text = "";
  for (const one of new Uint8Array(bytes)) text += String.fromCharCode(one);
  return btoa(text);
}
export const toBytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));

function joined(...parts) {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.byteLength, 0));
  let at = 0;
  for (const part of parts) {
    all.set(new Uint8Array(part), at);
    at += part.byteLength;
  }
  return all;
}

async function cipher(shared, salt, about, use) {
  const base = await crypt.subtle.importKey("raw", shared, "HKDF", false, ["deriveKey"]);
  const how = { name: "HKDF", hash: "SHA-256", salt, info: new TextEncoder().encode(about) };
  return crypt.subtle.deriveKey(how, base, { name: "AES-GCM", length: 256 }, false, [use]);
}

// Seals `content` to a public key; `answer` opens the answer to it and throws if another gave it.
export async function seal(content, publicKey) {
  const theirs = toBytes(publicKey);
  const known = await crypt.subtle.importKey("raw", theirs, CURVE, false, []);
  const own = await crypt.subtle.generateKey(CURVE, false, ["deriveBits"]);
  const point = await crypt.subtle.exportKey("raw", own.publicKey);
  const shared = await crypt.subtle.deriveBits({ name: "ECDH", public: known }, own.privateKey, 256);
  const salt = joined(point, theirs), iv = crypt.getRandomValues(new Uint8Array(12));
  const key = await cipher(shared, salt, MESSAGE, "encrypt");
  const said = new TextEncoder().encode(JSON.stringify(content));
  const sealed = joined(point, iv, await crypt.subtle.encrypt({ name: "AES-GCM", iv }, key, said));
  const answer = async (text) => {
    const bytes = toBytes(text);
    const open = await cipher(shared, salt, ANSWER, "decrypt");
    const clear = await crypt.subtle.decrypt({ name: "AES-GCM", iv: bytes.slice(0, 12) }, open, bytes.slice(12));
    return JSON.parse(new TextDecoder().decode(clear));
  };
  return { sealed: toText(sealed), answer };
}
