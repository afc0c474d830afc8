# bash completion for spillway(1): commands first, then the command's flags, and the values of --output.
_spillway() {
    local word words=()
    COMPREPLY=()
    if [[ ${COMP_WORDS[COMP_CWORD - 1]} =~ ^(-o|--output)$ ]]; then
        while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -W 'json table tsv' -- "${COMP_WORDS[COMP_CWORD]}")
        return
    fi
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ $word == -* ]] && break
        words+=("$word")
    done
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(
        compgen -W "$("${COMP_WORDS[0]}" --complete "${words[@]}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -o default -F _spillway spillway
